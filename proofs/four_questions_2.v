(* Page 3, "Four questions to a proof" (notebooks/path_decomposition/four_questions.ipynb),
   continued.
   Propositions 3.11 and 3.4. Compile four_questions.v first. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import identities exponential four_questions definitions.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Proposition 3.11 (Only the product has a meaning), first half. norm is the normaliser of rows of
   logits; like softmax it does not see what is constant along rows. s is 1 / sqrt(d_qk). *)
Section Scale.
Variables (F : fieldType) (H n d dqk : nat) (norm : 'M[F]_n -> 'M[F]_n) (s : F).
Hypothesis shift : forall A (x : 'cV[F]_n), norm (A + x *m (one F n)^T) = norm A.
Definition attention (w : attention_head F d dqk) (X : 'M[F]_(n, d)) : 'M[F]_n := norm (logits s w X).
(* Up to parts constant along rows the logits are X W_QK X^T + 1 (X W_K b_Q)^T. *)
Lemma attentionE (w : attention_head F d dqk) X : attention w X =
  norm (s *: (X *m (WQ w *m (WK w)^T) *m X^T + one F n *m (X *m (WK w *m (bQ w)^T))^T)).
Proof.
rewrite /attention logitsE
  -[in RHS](shift _ (s *: (X *m WQ w *m (bK w)^T + one F n *m (bQ w *m (bK w)^T)))).
congr (norm _); rewrite -scalemxAl -scalerDr; congr (_ *: _).
have -> : (X *m WK w + one F n *m bK w)^T = (WK w)^T *m X^T + (bK w)^T *m (one F n)^T.
  by rewrite linearD /= !trmx_mul.
have -> : (X *m (WK w *m (bQ w)^T))^T = bQ w *m (WK w)^T *m X^T by rewrite !trmx_mul trmxK.
by rewrite mulmxDl !mulmxDr mulmxDl !mulmxA addrACA.
Qed.
(* A network without skips and without value and output biases. *)
Fixpoint SAN (w : nat -> 'I_H -> attention_head F d dqk) L X : 'M[F]_(n, d) :=
  if L is l.+1 then \sum_h attention (w l h) (SAN w l X) *m SAN w l X *m W (w l h) else X.
(* alpha^-2 W_QK, alpha^-1 W_K b_Q, and the same W. *)
Definition scaled (alpha : F) (w w' : attention_head F d dqk) :=
  [/\ WQ w' *m (WK w')^T = alpha ^- 2 *: (WQ w *m (WK w)^T),
      WK w' *m (bQ w')^T = alpha^-1 *: (WK w *m (bQ w)^T) & W w' = W w].
Variables (alpha : F) (w w' : nat -> 'I_H -> attention_head F d dqk).
Hypotheses (alpha0 : alpha != 0) (ww' : forall l h, scaled alpha (w l h) (w' l h)).
Lemma same_attention l h X : attention (w' l h) (alpha *: X) = attention (w l h) X.
Proof.
have [QK Kb _] := ww' l h; rewrite !attentionE QK Kb; congr (norm (_ *: (_ + _))).
  rewrite [(alpha *: X)^T]linearZ /= -!scalemxAl -!scalemxAr -?scalemxAl !scalerA.
  by rewrite mulrA -expr2 divff ?expf_neq0 // scale1r.
by rewrite -scalemxAl -scalemxAr scalerA divff // scale1r.
Qed.
Lemma same_state L X : SAN w' L (alpha *: X) = alpha *: SAN w L X.
Proof.
elim: L => //= l ->; rewrite scaler_sumr; apply: eq_bigr => h _; have [_ _ ->] := ww' l h.
by rewrite same_attention -scalemxAr -scalemxAl.
Qed.
(* Every P stays as it was, and every residual is multiplied by alpha. *)
Theorem scale L X :
  (forall h, attention (w' L h) (SAN w' L (alpha *: X)) = attention (w L h) (SAN w L X)) /\
  res (SAN w' L (alpha *: X)) = alpha *: res (SAN w L X).
Proof.
split=> [h|]; rewrite same_state ?same_attention //.
by rewrite /res -scalemxAr.
Qed.
End Scale.

(* Two clusters of m + 1 tokens of width 1, at a and -a; softmax with a positive function e for exp,
   logits w X X^T. *)
Section Clusters.
Variables (R : realFieldType) (e : R -> R) (m : nat).
Hypotheses (e_gt0 : forall x, 0 < e x).
Local Notation N := (m.+1 + m.+1)%N.
Definition cluster (a : R) : 'cV[R]_N := col_mx (const_mx a) (const_mx (- a)).
Definition Pof (w : R) (X : 'cV[R]_N) : 'M[R]_N := softmax_rows e (w *: (X *m X^T)).
(* The weight of a cluster on itself is p, and 2 p - 1 = tau (tanh for e = exp). *)
Definition p t : R := e t / (e t + e (- t)).
Local Notation tau := (tanh e).
Definition blocks t : 'M[R]_N :=
  m.+1%:R^-1 *:
  block_mx (const_mx (p t)) (const_mx (p (- t))) (const_mx (p (- t))) (const_mx (p t)).
Lemma P_blocks w a : Pof w (cluster a) = blocks (w * a ^+ 2).
Proof.
set t := w * a ^+ 2; have tot : m.+1%:R * (e t + e (- t)) != 0.
  by rewrite mulf_neq0 ?pnatr_eq0 // gt_eqF ?addr_gt0.
have XX i j : (w *: (cluster a *m (cluster a)^T)) i j =
    match split i, split j with inl _, inl _ | inr _, inr _ => t | _, _ => - t end.
  rewrite !mxE big_ord1 !mxE; case: (split i) => ?; case: (split j) => ?;
    by rewrite !mxE ?(mulrN, mulNr, opprK) -expr2.
have sum i : \sum_k e ((w *: (cluster a *m (cluster a)^T)) i k) = m.+1%:R * (e t + e (- t)).
  under eq_bigr do rewrite XX; rewrite big_split_ord /=.
  have splitL (k : 'I_m.+1) : split (lshift m.+1 k) = inl k := unsplitK (inl k).
  have splitR (k : 'I_m.+1) : split (rshift m.+1 k) = inr k := unsplitK (inr k).
  under eq_bigr do rewrite splitL; under [X in _ + X]eq_bigr do rewrite splitR.
  rewrite !sumr_const card_ord -mulrnDl mulr_natl.
  by case: (split i) => _ //; rewrite addrC.
apply/matrixP => i j; rewrite softmax_rowsE sum XX [RHS]mxE mxE.
rewrite invfM mulrCA /p opprK [e (- t) + _]addrC.
by case: (split i) => ?; rewrite mxE; case: (split j) => ?; rewrite mxE.
Qed.

(* P = (1 1^T + tau X X^T) / N, with X = (1, ..., -1, ...)^T. *)
Local Notation ones := (one R N).
Local Notation X := (cluster 1).
Lemma product (a b c d : R) : (col_mx (const_mx a : 'cV_m.+1) (const_mx b : 'cV_m.+1))^T *m
  col_mx (const_mx c : 'cV_m.+1) (const_mx d) = (m.+1%:R * (a * c + b * d))%:M.
Proof.
have dot (x y : R) : (const_mx x : 'rV_m.+1) *m (const_mx y : 'cV_m.+1) = (m.+1%:R * (x * y))%:M.
  apply/matrixP => i j; rewrite !ord1 !mxE; under eq_bigr do rewrite !mxE.
  by rewrite sumr_const card_ord mulr_natl.
by rewrite tr_col_mx !trmx_const mul_row_col !dot -raddfD -mulrDr.
Qed.
Lemma onesE : ones = col_mx (const_mx 1) (const_mx 1).
Proof. by apply/matrixP => i j; rewrite !mxE; case: split => k; rewrite mxE. Qed.
Lemma N_nat : m.+1%:R * (1 * 1 + 1 * 1) = N%:R :> R.
Proof. by rewrite mulr1 mulrDr mulr1 -natrD. Qed.
Lemma N0 : N%:R != 0 :> R. Proof. by rewrite pnatr_eq0. Qed.
Lemma ones_ones : ones^T *m ones = N%:R%:M. Proof. by rewrite onesE product N_nat. Qed.
Lemma ones_X : ones^T *m X = 0.
Proof. by rewrite onesE product mulrN !mulr1 subrr mulr0 raddf0. Qed.
Lemma X_ones : X^T *m ones = 0.
Proof. by rewrite onesE product mulNr !mulr1 subrr mulr0 raddf0. Qed.
Lemma X_X : X^T *m X = N%:R%:M. Proof. by rewrite product mulrNN N_nat. Qed.
Lemma clusterE a : cluster a = a *: X.
Proof. by apply/matrixP => i j; rewrite !mxE; case: split => k; rewrite !mxE ?mulrN mulr1. Qed.
Lemma blocksE t : blocks t = N%:R^-1 *: (ones *m ones^T + tau t *: (X *m X^T)).
Proof.
have s0 : e t + e (- t) != 0 by rewrite gt_eqF ?addr_gt0.
have s0' : e (- t) + e t != 0 by rewrite addrC.
have two : 2%:R != 0 :> R by rewrite pnatr_eq0.
have pt : p t = 2%:R^-1 * (1 + tau t).
  apply: (mulfI two); rewrite [RHS]mulrA divff // mul1r /p /tanh mulrA -{2}(divff s0) -mulrDl.
  by rewrite addrACA subrr addr0 mulr_natl mulr2n.
have pn : p (- t) = 2%:R^-1 * (1 - tau t).
  apply: (mulfI two); rewrite [RHS]mulrA divff // mul1r /p /tanh opprK [e (- t) + _]addrC mulrA.
  by rewrite -{2}(divff s0) -mulrBl opprD opprK addrACA subrr add0r mulr_natl mulr2n.
have half : N%:R^-1 = m.+1%:R^-1 * 2%:R^-1 :> R by rewrite addnn -muln2 natrM invfM mulrC.
apply/matrixP => i j; rewrite half !mxE !big_ord1 !mxE mul1r -mulrA; congr (_ * _).
case: (split i) => ?; rewrite !mxE; case: (split j) => ?; rewrite !mxE
  ?(mulrN, mulNr, mulr1, opprK);
by rewrite ?pt ?pn.
Qed.
Lemma blocks_ones t : blocks t *m ones = ones.
Proof.
rewrite blocksE -scalemxAl mulmxDl -scalemxAl -!mulmxA ones_ones X_ones mulmx0 scaler0 addr0.
by rewrite mul_mx_scalar scalerA mulVf ?N0 // scale1r.
Qed.
Lemma blocks_X t a : blocks t *m cluster a = tau t *: cluster a.
Proof.
rewrite clusterE -scalemxAr blocksE -scalemxAl mulmxDl -scalemxAl -!mulmxA ones_X X_X mulmx0 add0r.
by rewrite mul_mx_scalar !scalerA [_ * tau t]mulrC -!mulrA mulVf ?N0 // mulr1 mulrC.
Qed.
Lemma rank_blocks t : tau t != 0 -> \rank (blocks t) = 2%N.
Proof.
move=> t0; apply/eqP; rewrite eqn_leq; apply/andP; split.
  have -> : blocks t = row_mx ones X *m col_mx (N%:R^-1 *: ones^T) ((N%:R^-1 * tau t) *: X^T).
    by rewrite mul_row_col -!scalemxAr blocksE scalerDr scalerA.
  exact: mulmx_max_rank.
(* P fixes 1 and multiplies X by tau: two independent columns. *)
have PM : blocks t *m row_mx ones (cluster 1) = row_mx ones (tau t *: cluster 1).
  by rewrite mul_mx_row blocks_ones blocks_X.
apply: leq_trans (mxrankM_maxl _ (row_mx ones (cluster 1))); rewrite PM.
pose A := col_mx (N%:R^-1 *: ones^T) ((N%:R * tau t)^-1 *: X^T).
apply: leq_trans (mxrankM_maxr A _).
rewrite /A mul_col_row -!scalemxAl -!scalemxAr ones_ones ones_X X_ones X_X !scaler0.
rewrite scalerA -!mul_scalar_mx -!scalar_mxM mulVf ?N0 // [(N%:R * _)^-1 * _ * _]mulrAC -mulrA.
rewrite (mulVf (mulf_neq0 N0 t0)); have -> : block_mx 1%:M 0 0 1%:M = 1%:M :> 'M[R]_(1 + 1).
  by rewrite -scalar_mx_block.
by rewrite mxrank1.
Qed.

(* A network of one head of width 1 in each layer, without skips: logits w_l x x', value
   weight v. *)
Fixpoint state (w : nat -> R) (v : R) L Y : 'cV[R]_N :=
  if L is l.+1 then v *: (Pof (w l) (state w v l Y) *m state w v l Y) else Y.
Lemma stateS w v L Y :
  state w v L.+1 Y = v *: (Pof (w L) (state w v L Y) *m state w v L Y).
Proof. by []. Qed.
Lemma res_cluster a : res (cluster a) = cluster a.
Proof. by rewrite /res mulmxBl mul1mx -scalemxAl -mulmxA clusterE -scalemxAr ones_X !(scaler0, mulmx0) subr0. Qed.
Definition collapses w v Y := forall i, to_zero (fun L => res (state w v L Y) i 0).

(* With logits of the size t in each layer, and w falling or rising accordingly,
   X_L = (v tau)^L X. *)
Lemma state_power w v a t L : a != 0 -> v * tau t != 0 ->
  (forall l, w l = t / (a * (v * tau t) ^+ l) ^+ 2) ->
  state w v L (cluster a) = cluster (a * (v * tau t) ^+ L) /\
  Pof (w L) (state w v L (cluster a)) = blocks t.
Proof.
move=> a0 vt0 wE; have P k : Pof (w k) (cluster (a * (v * tau t) ^+ k)) = blocks t.
  by rewrite P_blocks wE divfK // expf_neq0 // mulf_neq0 // expf_neq0.
suff E : state w v L (cluster a) = cluster (a * (v * tau t) ^+ L) by rewrite E.
elim: L => [|l IH]; first by rewrite mulr1.
rewrite /= IH P blocks_X scalerA [in RHS]clusterE [in LHS]clusterE scalerA exprS.
by rewrite [in RHS]mulrCA.
Qed.

(* Proposition 3.4 (b). 2 (m + 1) tokens, all P of rank 2, and the input returned at
   every depth. *)
Theorem rank_two_keeps t : tau t != 0 -> let w (_ : nat) := t in let v := (tau t)^-1 in
  forall L, state w v L X = X /\ \rank (Pof (w L) (state w v L X)) = 2%N.
Proof.
move=> t0 w v L; have vt : v * tau t = 1 by rewrite mulVf.
have [|||-> ->] := @state_power w v 1 t L; rewrite ?vt ?oner_eq0 //.
  by move=> l; rewrite expr1n mulr1 expr1n divr1.
by rewrite expr1n mulr1 rank_blocks.
Qed.

(* Proposition 3.11, second half. Of two networks with the same input one collapses (equal logits: P
   is uniform), the other keeps the input; so no condition on the size of the residual, whatever
   size means, decides. *)
Theorem both_happen a t : a != 0 -> tau t != 0 ->
  (exists w v, collapses w v (cluster a)) /\
  (exists w v, forall L, state w v L (cluster a) = cluster a).
Proof.
move=> a0 t0; split.
  exists (fun=> 0), 1 => i eps eps0; exists 1%N => -[//|L] _.
  have -> : state (fun=> 0) 1 L.+1 (cluster a) = 0; last first.
    by rewrite /res mulmx0 mxE normr0.
  elim: L => [|L IH]; last by rewrite stateS IH mulmx0 scaler0.
  by rewrite stateS P_blocks blocks_X mul0r /tanh oppr0 subrr mul0r scale0r scaler0.
exists (fun=> t / a ^+ 2), (tau t)^-1 => L; have vt : (tau t)^-1 * tau t = 1 by rewrite mulVf.
have [|||-> _] := @state_power (fun=> t / a ^+ 2) (tau t)^-1 a t L; rewrite ?vt ?oner_eq0 //.
  by move=> l; rewrite expr1n mulr1.
by rewrite expr1n mulr1.
Qed.
Theorem size_does_not_decide (size : 'cV[R]_N -> R) (condition : R -> Prop) (a t : R) :
  a != 0 -> tau t != 0 ->
  ~ (forall w v (Y : 'cV[R]_N), res Y != 0 -> collapses w v Y <-> condition (size (res Y))).
Proof.
move=> a0 t0 decides; have [[w [v yes]] [w' [v' keep]]] := both_happen a0 t0.
have R0 : res (cluster a) != 0.
  rewrite res_cluster; apply/eqP => /matrixP/(_ (lshift _ 0) 0)/eqP.
  by rewrite col_mxEu !mxE (negbTE a0).
have /(decides w' v' _ R0) no := proj1 (decides w v _ R0) yes.
have a1 : 0 < `|a| by rewrite normr_gt0.
have [L /(_ L (leqnn L))] := no (lshift m.+1 ord0) _ a1.
by rewrite keep res_cluster col_mxEu mxE ltxx.
Qed.
End Clusters.

(* Example 3.5 (Full rank, and collapse): n = m + 1 unit vectors, X_0 = I, and in every layer W = I
   and the logits w_l X_l X_l^T. *)
Section FullRank.
Variables (R : realFieldType) (exp : R -> R) (m : nat).
Hypothesis expE : exponential exp.
Let n : R := m.+1%:R.
(* The matrix with 1/n everywhere. *)
Definition average : 'M[R]_m.+1 := m.+1%:R^-1 *: (one R m.+1 *m (one R m.+1)^T).
(* c (I - 1 1^T / n) + 1 1^T / n *)
Definition shrunk (c : R) : 'M[R]_m.+1 := c *: (1%:M - average) + average.
Definition sharp_weights (w : R) (X : 'M[R]_m.+1) : 'M[R]_m.+1 := softmax_rows exp (w *: (X *m X^T)).
Fixpoint tokens (w : nat -> R) L : 'M[R]_m.+1 :=
  if L is l.+1 then sharp_weights (w l) (tokens w l) *m tokens w l else 1%:M.

Lemma n_neq0 : n != 0. Proof. by rewrite pnatr_eq0. Qed.
Lemma averageE i j : average i j = n^-1.
Proof. by rewrite !mxE big_ord1 !mxE !mulr1. Qed.
Lemma average_twice : average *m average = average.
Proof.
apply/matrixP => i j; rewrite mxE averageE; under eq_bigr do rewrite !averageE.
by rewrite sumr_const card_ord -mulr_natl mulVKf ?n_neq0.
Qed.
Lemma centre_average : (1%:M - average) *m average = 0.
Proof. by rewrite mulmxBl mul1mx average_twice subrr. Qed.
Lemma average_centre : average *m (1%:M - average) = 0.
Proof. by rewrite mulmxBr mulmx1 average_twice subrr. Qed.
Lemma centre_twice : (1%:M - average) *m (1%:M - average) = 1%:M - average.
Proof. by rewrite mulmxBr mulmx1 centre_average subr0. Qed.
Lemma shrunkM c c' : shrunk c *m shrunk c' = shrunk (c * c').
Proof.
rewrite /shrunk; move: centre_twice centre_average average_centre average_twice.
move: average (1%:M - average) => A C CC CA AC AA.
by rewrite mulmxDl !mulmxDr -!scalemxAl -!scalemxAr CC CA AC AA !scaler0 addr0 add0r scalerA.
Qed.
Lemma shrunk1 : shrunk 1 = 1%:M. Proof. by rewrite /shrunk scale1r subrK. Qed.
Lemma shrunkE c i j : shrunk c i j = c * (i == j)%:R + (1 - c) * n^-1.
Proof.
rewrite /shrunk; move: averageE; move: average => a aE; rewrite !mxE aE.
by case: (i == j); ring.
Qed.
Lemma shrunk_tr c : (shrunk c)^T = shrunk c.
Proof. by apply/matrixP => i j; rewrite mxE !shrunkE eq_sym. Qed.
Lemma shrunk_unit c : c != 0 -> shrunk c \in unitmx.
Proof.
move=> c0; have e : shrunk c *m shrunk c^-1 = 1%:M by rewrite shrunkM divff // shrunk1.
by have /mulmx1_unit[] := e.
Qed.
Lemma res_shrunk c : res (shrunk c) = c *: (1%:M - average).
Proof.
have -> : res (shrunk c) = shrunk c - average *m shrunk c by rewrite /res mulmxBl mul1mx.
rewrite /shrunk; move: average_centre average_twice; move: average (1%:M - average) => A C AC AA.
by rewrite mulmxDr -scalemxAr AC AA scaler0 add0r addrK.
Qed.

(* Softmax does not see the part that is equal for all keys: P is the same in all layers. *)
Variable w0 : R.
Hypothesis w0E : exp w0 = n + 1.
Lemma weights_shrunk c : c != 0 -> sharp_weights (w0 / c ^+ 2) (shrunk c) = shrunk 2%:R^-1.
Proof.
move=> c0; rewrite /sharp_weights shrunk_tr shrunkM -expr2.
pose kappa := w0 / c ^+ 2 * ((1 - c ^+ 2) * n^-1).
have e i j : exp ((w0 / c ^+ 2 *: shrunk (c ^+ 2)) i j) = (1 + n * (i == j)%:R) * exp kappa.
  rewrite mxE shrunkE mulrDr mulrA divfK ?expf_neq0 // -/kappa (expD expE); congr (_ * _).
  by case: eqP => _; rewrite ?(mulr1, mulr0) ?w0E ?(exp0 expE) ?addr0 // addrC.
have total i : \sum_k exp ((w0 / c ^+ 2 *: shrunk (c ^+ 2)) i k) = 2%:R * n * exp kappa.
  under eq_bigr do rewrite e; rewrite -mulr_suml big_split /= -mulr_sumr; congr (_ * _).
  rewrite sumr_const card_ord (bigD1 i) //= eqxx big1 ?addr0; last first.
    by move=> k /negbTE ki; rewrite eq_sym ki.
  by rewrite mulr1 -mulr2n mulr_natl.
apply/matrixP => i j; rewrite softmax_rowsE total e shrunkE.
have k0 := exp_neq0 expE kappa; have n0 := n_neq0.
by field; rewrite n0 k0.
Qed.
Definition sharpened l := w0 * 4%:R ^+ l.
Theorem tokens_shrunk L : tokens sharpened L = shrunk (2%:R^-1 ^+ L) /\
  sharp_weights (sharpened L) (tokens sharpened L) = shrunk 2%:R^-1.
Proof.
have half0 k : 2%:R^-1 ^+ k != 0 :> R by rewrite expf_neq0 // invr_eq0 pnatr_eq0.
have wE l : sharpened l = w0 / (2%:R^-1 ^+ l) ^+ 2.
  have four : 4%:R = 2%:R ^+ 2 :> R by rewrite -natrX.
  by rewrite /sharpened four exprAC !exprVn invrK.
have st : tokens sharpened L = shrunk (2%:R^-1 ^+ L).
  elim: L => [|l IH] /=; first by rewrite shrunk1.
  by rewrite IH wE weights_shrunk // shrunkM exprS.
by rewrite st wE weights_shrunk.
Qed.

(* The residual is a smaller and smaller part of the tokens. *)
Definition collapses_relatively w := forall eps, 0 < eps -> exists N, forall L, (N <= L)%N ->
  sqnorm (res (tokens w L)) < eps * sqnorm (tokens w L).
Lemma trace_average : \tr average = 1.
Proof.
rewrite /mxtrace; under eq_bigr do rewrite averageE.
by rewrite sumr_const card_ord -mulr_natl divff ?n_neq0.
Qed.
Lemma sqnorm_shrunk c : sqnorm (shrunk c) = c ^+ 2 * (n - 1) + 1.
Proof.
rewrite sqnorm_tr shrunk_tr shrunkM /shrunk mxtraceD mxtraceZ linearB /= trace_average mxtrace1.
by rewrite -expr2.
Qed.
Lemma sqnorm_res c : sqnorm (res (shrunk c)) = c ^+ 2 * (n - 1).
Proof.
have tr : (1%:M - average)^T = 1%:M - average.
  have := shrunk_tr 1; rewrite shrunk1 => _; apply/matrixP => i j.
  by rewrite !mxE !big_ord1 !mxE eq_sym.
have trC : \tr (1%:M - average) = n - 1 by rewrite linearB /= trace_average mxtrace1.
rewrite res_shrunk sqnorm_tr; move: tr trC centre_twice; move: (1%:M - average) => C tr trC CC.
by rewrite linearZ /= tr -scalemxAl -scalemxAr scalerA CC mxtraceZ trC -expr2.
Qed.

(* Proposition 3.4 (a), and Example 3.5: every P is invertible, so is every X_l, and the network
   collapses: the residual tends to zero beside the tokens. *)
Theorem full_rank_collapses :
  [/\ forall L, sharp_weights (sharpened L) (tokens sharpened L) \in unitmx,
      forall L, tokens sharpened L \in unitmx & collapses_relatively sharpened].
Proof.
have arch : archimedean R := exp_archimedean expE.
have half0 k : 2%:R^-1 ^+ k != 0 :> R by rewrite expf_neq0 // invr_eq0 pnatr_eq0.
split=> [L|L|eps eps0].
- by have [_ ->] := tokens_shrunk L; rewrite shrunk_unit // (half0 1%N).
- by have [-> _] := tokens_shrunk L; rewrite shrunk_unit.
have n0 : 0 < n by rewrite ltr0n.
have q0 : 0 <= 2%:R^-1 ^+ 2 :> R by rewrite exprn_ge0 // invr_ge0 ler0n.
have q1 : 2%:R^-1 ^+ 2 < 1 :> R.
  by rewrite exprVn invf_lt1 ?exprn_gt0 ?ltr0n // -natrX ltr1n.
have [N small] := powers arch q0 q1 (divr_gt0 eps0 n0); exists N => L NL.
have [-> _] := tokens_shrunk L; rewrite sqnorm_shrunk sqnorm_res -exprM mulnC exprM.
have := small L NL; set q := _ ^+ L; rewrite ltr_pdivl_mulr //.
have q_ge0 : 0 <= q by rewrite exprn_ge0.
rewrite ger0_norm // => qn; have n1 : 0 <= n - 1 by rewrite subr_ge0 ler1n.
apply: le_lt_trans (_ : _ <= q * n) _; first by rewrite ler_wpmul2l // ger_addl oppr_le0 ler01.
by apply: lt_le_trans qn _; rewrite ler_pmulr // ler_addr mulr_ge0.
Qed.
End FullRank.

(* Proposition 3.4 (c). If P has rank one, all tokens are equal after the layer. *)
Theorem rank_one (F : fieldType) n d (P : 'M[F]_n) (X : 'M[F]_(n, d)) : \rank P = 1%N ->
  P *m one F n = one F n -> forall i j, row i (P *m X) = row j (P *m X).
Proof.
(* P = u s, and u (s 1) = 1, so u is a multiple of 1. *)
move=> r1 P1 i j; have [u [s Pus]] : exists (u : 'cV[F]_n) (s : 'rV[F]_n), P = u *m s.
  by exists (castmx (erefl, r1) (col_base P)), (castmx (r1, erefl) (row_base P));
    rewrite -[LHS]mulmx_base; case: _ / r1.
suff uu : u i 0 = u j 0 by rewrite !row_mul Pus !row_mul; congr (_ *m _ *m _);
  apply/matrixP => a b; rewrite !ord1 !mxE.
have s1 k : u k 0 * (s *m one F n) 0 0 = 1.
  by have /matrixP/(_ k 0) := P1; rewrite Pus -mulmxA [LHS]mxE big_ord1 [in RHS]mxE.
have c0 : (s *m one F n) 0 0 != 0.
  by apply: contra_eq_neq (s1 i) => ->; rewrite mulr0 eq_sym oner_eq0.
by apply: (mulIf c0); rewrite !s1.
Qed.

(* In particular for exp: softmax does not see what is constant along rows, so that Proposition 3.11
   holds for it, first ... *)
Section Exponential.
Variables (R : realFieldType) (exp : R -> R).
Hypothesis expE : exponential exp.
Lemma softmax_shift n (A : 'M[R]_n) (x : 'cV[R]_n) :
  softmax_rows exp (A + x *m (one R n)^T) = softmax_rows exp A.
Proof.
have E i k : exp ((A + x *m (one R n)^T) i k) = exp (x i 0) * exp (A i k).
  by rewrite !mxE big_ord1 !mxE mulr1 (expD expE) mulrC.
apply/matrixP => i j; rewrite [LHS]softmax_rowsE [RHS]softmax_rowsE E (eq_bigr _ (fun k _ => E i k)) -mulr_sumr.
by rewrite invfM mulrACA mulfV ?mul1r ?(exp_neq0 expE).
Qed.
Corollary scale_exp (H n d dqk : nat) (s alpha : R) (w w' : nat -> 'I_H -> attention_head R d dqk) :
  alpha != 0 -> (forall l h, scaled alpha (w l h) (w' l h)) -> forall L (X : 'M[R]_(n, d)),
  let P := attention (@softmax_rows _ _ exp n n) s in let X_ := SAN (@softmax_rows _ _ exp n n) s in
  (forall h, P (w' L h) (X_ w' L (alpha *: X)) = P (w L h) (X_ w L X)) /\
  res (X_ w' L (alpha *: X)) = alpha *: res (X_ w L X).
Proof. by move=> a0 ww' L X; apply: scale => //; apply: softmax_shift. Qed.
(* ... The number C rho^2 does not change: C holds the size of W_QK once, as a factor, and rho
   is the size of the residual. Any sizes with |t A| = |t| |A| will do. ... *)
Corollary product_kept n d (QK QK' : 'M[R]_d) (X : 'M[R]_(n, d)) (alpha c : R)
  (size : 'M[R]_d -> R) (rho : 'M[R]_(n, d) -> R) : alpha != 0 ->
  (forall t A, size (t *: A) = `|t| * size A) -> (forall t A, rho (t *: A) = `|t| * rho A) ->
  QK' = alpha ^- 2 *: QK ->
  c * size QK' * rho (res (alpha *: X)) ^+ 2 = c * size QK * rho (res X) ^+ 2.
Proof.
move=> a0 sizeZ rhoZ ->; have -> : res (alpha *: X) = alpha *: res X.
  by rewrite /res -scalemxAr.
rewrite sizeZ rhoZ exprMn normrV ?unitfE ?expf_neq0 // normrX mulrACA -!mulrA.
by rewrite [`|alpha| * (_ * _)]mulrA -expr2 mulVKf ?expf_neq0 ?normr_eq0.
Qed.
(* ... and last: no condition on the size of a nonzero input residual alone decides. *)
Lemma tau_exp : 0 < tanh exp 1.
Proof.
rewrite /tanh divr_gt0 ?subr_gt0 ?addr_gt0 ?(exp_gt0 expE) // (exp_lt expE).
by rewrite gt0_cp ?ltr01.
Qed.
Corollary decide_exp m (size : 'cV[R]_(m.+1 + m.+1) -> R) (condition : R -> Prop) :
  ~ (forall w v Y, res Y != 0 -> collapses exp w v Y <-> condition (size (res Y))).
Proof.
apply: (@size_does_not_decide _ _ _ (exp_gt0 expE) size condition 1 1 (oner_neq0 R)).
by rewrite gt_eqF // tau_exp.
Qed.
(* Proposition 3.4 (b) for exp. *)
Corollary rank_two_keeps_exp m : exists w v, forall L (X := cluster m (1 : R)),
  state exp w v L X = X /\ \rank (Pof exp (w L) (state exp w v L X)) = 2%N.
Proof.
exists (fun=> 1), (tanh exp 1)^-1 => L.
by apply: (rank_two_keeps m (exp_gt0 expE)); rewrite gt_eqF // tau_exp.
Qed.
End Exponential.

(* A positive function with e(-1) < e(1), to inhabit the hypotheses in exact arithmetic. *)
Definition e2 (x : rat) : rat := if 0 < x then 2%:R else 1.
Example clusters_met : [/\ archimedean [realFieldType of rat], forall x, 0 < e2 x, e2 (- 1) < e2 1 &
  tanh e2 1 = 1 / 3%:R].
Proof. by split=> //; [exact: archimedean_rat | move=> x; rewrite /e2; case: ifP]. Qed.

(* One token, which listens to itself. *)
Example rank_one_met (F : fieldType) d (X : 'M[F]_(1, d)) i j :
  row i ((1%:M : 'M[F]_1) *m X) = row j (1%:M *m X).
Proof. by apply: rank_one; rewrite ?mxrank1 ?mul1mx. Qed.

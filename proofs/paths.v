(* Page 1, "Every path through self-attention" (notebooks/path_decomposition/paths.ipynb).
   Theorem 1.3, Corollary 1.4, Proposition 1.6, Proposition 1.7.
   The other claims of the page are in paths_2.v.
   Layers and heads count from 0. Biases are rows here: bV stands for the page's b_V^T. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* A sum over lists of length L + 1 is a sum over the first entry and over the rest. *)
Lemma sum_cons (A : Type) (x0 : A) (op : Monoid.com_law x0) (T : finType) L (F : seq T -> A) :
  \big[op/x0]_(p : L.+1.-tuple T) F p =
  \big[op/x0]_(t : T) \big[op/x0]_(p : L.-tuple T) F (t :: p).
Proof.
rewrite pair_big /= (reindex (fun tp : T * L.-tuple T => cons_tuple tp.1 tp.2)) //=.
exists (fun p : L.+1.-tuple T => (thead p, behead_tuple p)) => [[t p] _|p _] /=.
  by rewrite theadE; congr (_, _); apply: val_inj.
by rewrite [RHS]tuple_eta; apply: val_inj.
Qed.
Lemma sum_nil (A : Type) (x0 : A) (op : Monoid.com_law x0) (T : finType) (F : seq T -> A) :
  \big[op/x0]_(p : 0.-tuple T) F p = F [::].
Proof. by rewrite (bigD1 [tuple]) //= big1 ?Monoid.mulm1 // => p; rewrite [p]tuple0. Qed.

Section Network.
Variables (F : fieldType) (H n d dv : nat).
Implicit Types (X Y : 'M[F]_(n, d)) (L l : nat) (h : 'I_H).
(* The weights of head h in layer l, the bias of its values, and the bias of the layer. *)
Variables (WV : nat -> 'I_H -> 'M[F]_(d, dv)) (WO : nat -> 'I_H -> 'M[F]_(dv, d)).
Variables (bV : nat -> 'I_H -> 'rV[F]_dv) (bO : nat -> 'rV[F]_d).
Definition W l h : 'M[F]_d := WV l h *m WO l h.
Local Notation one := (one F n).

(* A layer (1.5) that attends with the matrices P h. *)
Definition SA (P : 'I_H -> 'M[F]_n) l X : 'M[F]_(n, d) :=
  \sum_h P h *m (X *m WV l h + one *m bV l h) *m WO l h + one *m bO l.
(* The row u of step 1. *)
Definition u l : 'rV[F]_d := bO l + \sum_h bV l h *m WO l h.

(* Definition 1.1. A path of L layers is a list of L choices, the last layer first, as the
   matrices P stand in (1.1); None is the skip. prodP and prodW are the two products.
   [:: Some h2; Some h1] gives P 1 h2 *m P 0 h1 *m X *m (W 0 h1 *m W 1 h2): size q is the layer. *)
Definition path := seq (option 'I_H).
Section Term.
Variable (P : nat -> 'I_H -> 'M[F]_n).
Fixpoint prodP (p : path) : 'M[F]_n :=
  if p is o :: q then (if o is Some h then P (size q) h *m prodP q else prodP q) else 1%:M.
Fixpoint prodW (p : path) : 'M[F]_d :=
  if p is o :: q then (if o is Some h then prodW q *m W (size q) h else prodW q) else 1%:M.
Definition term X (p : path) : 'M[F]_(n, d) := prodP p *m X *m prodW p.
Lemma term_nil X : term X [::] = X. Proof. by rewrite /term /= mul1mx mulmx1. Qed.
Lemma term_skip X p : term X (None :: p) = term X p. Proof. by []. Qed.
Lemma term_head X h p : term X (Some h :: p) = P (size p) h *m term X p *m W (size p) h.
Proof. by rewrite /term /= !mulmxA. Qed.
End Term.

(* Step 1: one layer. The biases of the values pass through P, because P 1 = 1. *)
Lemma one_layer P l X : (forall h, P h *m one = one) ->
  SA P l X = \sum_h P h *m X *m W l h + one *m u l.
Proof.
move=> P1; rewrite /SA /u mulmxDr mulmx_sumr addrA addrAC; congr (_ + _).
rewrite -big_split; apply: eq_bigr => h _.
by rewrite mulmxDr mulmxDl !mulmxA P1.
Qed.
(* Step 2: a shared row b stays a shared row. *)
Lemma shared_row P l Y (b : 'rV[F]_d) : (forall h, P h *m one = one) ->
  SA P l (Y + one *m b) =
  \sum_h P h *m Y *m W l h + one *m (u l + \sum_h b *m W l h).
Proof.
move=> P1; rewrite one_layer // [in RHS]mulmxDr mulmx_sumr [_ + \sum_h _ in RHS]addrC addrA.
congr (_ + _); rewrite -big_split; apply: eq_bigr => h _.
by rewrite mulmxDr mulmxDl !mulmxA P1.
Qed.

(* The row of the next layer. *)
Lemma next_row l (b : 'rV[F]_d) :
  u l + \sum_h b *m W l h = bO l + \sum_h (bV l h *m WO l h + b *m W l h).
Proof. by rewrite /u -addrA -big_split. Qed.

(* The network computes its attention: att l h may be softmax of queries and keys (1.4),
   with any mask, or any other function of the input of layer l. *)
Variable (att : nat -> 'I_H -> 'M[F]_(n, d) -> 'M[F]_n).
Fixpoint SAN L X : 'M[F]_(n, d) :=
  if L is l.+1 then SA (fun h => att l h (SAN l X)) l (SAN l X) else X.
(* The one rule of the page: P^l_h is the matrix of the full forward pass. *)
Definition Pfull X l h : 'M[F]_n := att l h (SAN l X).
(* (1.7) *)
Fixpoint b L : 'rV[F]_d :=
  if L is l.+1 then bO l + \sum_h (bV l h *m WO l h + b l *m W l h) else 0.

(* Theorem 1.3 (Path decomposition). SAN(X) is the sum of the terms of its H^L paths and 1 b^T. *)
Theorem decomposition L X : (forall l h, (l < L)%N -> Pfull X l h *m one = one) ->
  SAN L X = \sum_(p : L.-tuple 'I_H) term (Pfull X) X (map Some p) + one *m b L.
Proof.
(* Step 3: layer upon layer. *)
elim: L => [|l IH] P1.
  by rewrite (sum_nil _ (fun p => term (Pfull X) X (map Some p))) term_nil mulmx0 addr0.
have P1l h : att l h (SAN l X) *m one = one by apply: P1.
rewrite /= {2}IH => [|k h kl]; last by apply: P1; apply: ltnW.
rewrite shared_row // (sum_cons _ _ (fun p => term (Pfull X) X (map Some p))) /=.
rewrite next_row; congr (_ + _).
apply: eq_bigr => h _; rewrite mulmx_sumr mulmx_suml; apply: eq_bigr => p _.
by rewrite term_head size_map size_tuple.
Qed.
Theorem number_of_paths L : #|{: L.-tuple 'I_H}| = (H ^ L)%N.
Proof. by rewrite card_tuple card_ord. Qed.

(* The network with skips: every layer adds its input to its output. *)
Fixpoint SANs L X : 'M[F]_(n, d) :=
  if L is l.+1 then SANs l X + SA (fun h => att l h (SANs l X)) l (SANs l X) else X.
Definition Pskip X l h : 'M[F]_n := att l h (SANs l X).
(* (1.7) with the summand b^(l-1). *)
Fixpoint bs L : 'rV[F]_d :=
  if L is l.+1 then bs l + (bO l + \sum_h (bV l h *m WO l h + bs l *m W l h)) else 0.

(* Corollary 1.4 (Skip connections). The sum runs over the (H+1)^L paths that may skip layers. *)
Theorem skip L X : (forall l h, (l < L)%N -> Pskip X l h *m one = one) ->
  SANs L X = \sum_(p : L.-tuple (option 'I_H)) term (Pskip X) X p + one *m bs L.
Proof.
elim: L => [|l IH] P1.
  by rewrite (sum_nil _ (fun p => term (Pskip X) X p)) term_nil mulmx0 addr0.
have P1l h : att l h (SANs l X) *m one = one by apply: P1.
have {}IH := IH (fun k h kl => P1 k h (ltnW kl)).
rewrite /= {1 3}IH shared_row // (sum_cons _ _ (fun p => term (Pskip X) X p)) /=.
(* The skip is one more way: the old terms, and the old row. *)
rewrite (bigD1 None) //= addrACA [in RHS]mulmxDr next_row; congr (_ + _ + _).
(* The heads continue every path. *)
rewrite (reindex_omap (@Some 'I_H) id) => [|[h|]] //=; apply: eq_big => [h|h _].
  by rewrite eqxx.
rewrite mulmx_sumr mulmx_suml; apply: eq_bigr => p _.
by rewrite term_head size_tuple.
Qed.
Theorem number_of_skip_paths L : #|{: L.-tuple (option 'I_H)}| = (H.+1 ^ L)%N.
Proof. by rewrite card_tuple card_option card_ord. Qed.

(* Proposition 1.6 (a). Without value and output biases (1.6) with b = 0 holds for any P. *)
Theorem no_biases L X : (forall l h, bV l h = 0) -> (forall l, bO l = 0) ->
  SAN L X = \sum_(p : L.-tuple 'I_H) term (Pfull X) X (map Some p).
Proof.
move=> bV0 bO0; elim: L => [|l IH].
  by rewrite (sum_nil _ (fun p => term (Pfull X) X (map Some p))) term_nil.
rewrite /= {2}IH /SA bO0 mulmx0 addr0 (sum_cons _ _ (fun p => term (Pfull X) X (map Some p))).
apply: eq_bigr => h _; rewrite bV0 mulmx0 addr0 -mulmxA -[_ *m WO l h]mulmxA mulmxA.
rewrite mulmx_sumr mulmx_suml; apply: eq_bigr => p _.
by rewrite term_head size_map size_tuple.
Qed.
End Network.

(* The hypotheses are met. Two tokens of one feature, two heads with values of one feature, all
   weights and biases 1. Every token listens to both tokens equally: all entries of P are 1/2. *)
Definition Pmean : 'M[rat]_2 := const_mx 2%:R^-1.
Fact Pmean_rows : Pmean *m one _ 2 = one _ 2.
Proof. by apply/matrixP => i j; rewrite !mxE !big_ord_recl big_ord0 !mxE. Qed.
Definition ones (l : nat) (h : 'I_2) : 'M[rat]_1 := const_mx 1.
Example decomposition_met L (X : 'cV[rat]_2) :
  SAN ones ones ones (fun _ => const_mx 1) (fun _ _ _ => Pmean) L X =
  \sum_(p : L.-tuple 'I_2) term ones ones (fun _ _ => Pmean) X (map Some p)
    + one _ 2 *m b ones ones ones (fun _ => const_mx 1) L.
Proof. by apply: decomposition => l h _; exact: Pmean_rows. Qed.
Example skip_met L (X : 'cV[rat]_2) :
  SANs ones ones ones (fun _ => const_mx 1) (fun _ _ _ => Pmean) L X =
  \sum_(p : L.-tuple (option 'I_2)) term ones ones (fun _ _ => Pmean) X p
    + one _ 2 *m bs ones ones ones (fun _ => const_mx 1) L.
Proof. by apply: skip => l h _; exact: Pmean_rows. Qed.
(* Without biases the rows of P need not sum to one: here they sum to 2. *)
Example no_biases_met L (X : 'cV[rat]_2) :
  SAN ones ones (fun _ _ => 0) (fun _ => 0) (fun _ _ _ => const_mx 1) L X =
  \sum_(p : L.-tuple 'I_2) term ones ones (fun _ _ => const_mx 1) X (map Some p).
Proof. exact: no_biases. Qed.

(* Proposition 1.6 (b). For given P_h a layer splits into head terms and the row u, for all weights
   and biases, if and only if P_h 1 = 1 for all its heads. Widths are at least 1. *)
Theorem row_sums (F : fieldType) (H n d dv : nat) (P : 'I_H -> 'M[F]_n) :
  (forall WV WO bV bO (X : 'M_(n, d.+1)),
     SA (dv := dv.+1) WV WO bV bO P 0 X = \sum_h P h *m X *m W WV WO 0 h + one F n *m u WO bV bO 0)
  <-> (forall h, P h *m one F n = one F n).
Proof.
split=> [splits h0|P1 WV WO bV bO X]; last exact: one_layer.
(* The other heads get zero biases; b_V^T W_O is the first unit row e. *)
pose bV (l : nat) (h : 'I_H) : 'rV[F]_dv.+1 := if h == h0 then delta_mx 0 0 else 0.
have := splits (fun _ _ => 0) (fun _ _ => delta_mx 0 0) bV (fun _ => 0) 0.
rewrite /SA /u /W (bigD1 h0) //= big1 => [|h hh0]; last first.
  by rewrite /bV (negbTE hh0) mulmx0 addr0 mul0mx mulmx0 mul0mx.
rewrite big1 => [|h _]; last by rewrite mulmx0 mul0mx.
rewrite (bigD1 h0) //= big1 => [|h hh0]; last by rewrite /bV (negbTE hh0) mul0mx.
rewrite /bV eqxx mul0mx !mulmx0 !addr0 !add0r mulmxA -!mulmxA mul_delta_mx.
(* P 1 e = 1 e; read off the first column. *)
move=> /(congr1 (fun A => A *m (delta_mx 0 0 : 'cV_d.+1))) /=.
rewrite -!mulmxA mul_delta_mx; have -> : delta_mx 0 0 = 1%:M :> 'M[F]_1.
  by apply/matrixP => i j; rewrite !ord1 !mxE !eqxx.
by rewrite !mulmx1.
Qed.
(* Both cases occur. *)
Example row_sums_both : (1%:M : 'M[rat]_2) *m one _ 2 = one _ 2 /\
  (2%:R%:M : 'M[rat]_2) *m one _ 2 != one _ 2.
Proof.
split; first exact: mul1mx; apply/eqP => /matrixP/(_ 0 0).
by rewrite mul_scalar_mx !mxE.
Qed.

(* Proposition 1.6 (c). A normaliser turns logits into weights. It is shift invariant if a number
   added to a whole row of logits changes nothing; that is neither necessary nor sufficient. *)
Section Normalisers.
Variables (R : realFieldType) (n : nat).
Implicit Types (A : 'M[R]_n.+1) (x : 'cV[R]_n.+1).
Definition shift A x : 'M[R]_n.+1 := \matrix_(i, j) (A i j + x i 0).
Definition square A : 'M[R]_n.+1 := \matrix_(i, j) (A i j ^+ 2 / \sum_k A i k ^+ 2).
(* Not necessary: squares of nonzero logits, divided by their sum, sum to one in each row. *)
Theorem square_rows A : (forall i j, A i j != 0) -> square A *m one R n.+1 = one R n.+1.
Proof.
move=> A0; apply/matrixP => i j; rewrite !mxE.
under eq_bigr do rewrite !mxE mulr1; rewrite -mulr_suml divff // gt_eqF //.
rewrite (bigD1 0) //= ltr_paddr //; first by apply: sumr_ge0 => k _; rewrite sqr_ge0.
by rewrite lt_neqAle sqr_ge0 eq_sym sqrf_eq0 A0.
Qed.
(* Not sufficient: P_ij = phi(A_ij - max_k A_ik); phi = exp on the page. *)
Variable (phi : R -> R).
Definition top A i : R := \big[Num.max/A i 0]_k A i k.
Definition under_top A : 'M[R]_n.+1 := \matrix_(i, j) phi (A i j - top A i).
Theorem under_top_shift A x : under_top (shift A x) = under_top A.
Proof.
apply/matrixP => i j; rewrite !mxE; congr (phi _).
have -> : top (shift A x) i = top A i + x i 0; last by rewrite opprD addrACA subrr addr0.
rewrite /top; apply: esym; under [RHS]eq_bigr do rewrite mxE; rewrite mxE.
apply: (big_morph (fun y => y + x i 0)) => // y z; exact: addr_maxl.
Qed.
Theorem under_top_rows A : phi 0 = 1 -> (forall y, 0 < phi y) -> (0 < n)%N ->
  under_top A *m one R n.+1 != one R n.+1.
Proof.
move=> phi0 phi_gt n0; apply/eqP => /matrixP/(_ 0 0); rewrite !mxE.
under eq_bigr do rewrite !mxE mulr1.
(* The maximum is some A i k; its weight is 1, and the other weights are positive. *)
have [k topk] : exists k, top A 0 = A 0 k.
  rewrite /top; elim/big_ind: _ => [|y z [k ->] [m ->]|k _]; [by exists 0| |by exists k].
  by rewrite maxEle; case: ifP => _; [exists m | exists k].
rewrite (bigD1 k) //= topk subrr phi0 => /eqP; rewrite -subr_eq0 addrC addKr.
have [m mk] : exists m, m != k.
  case: (eqVneq k 0) => [->|k0]; last by exists 0; rewrite eq_sym.
  by exists ord_max; rewrite -val_eqE /= -lt0n.
rewrite (bigD1 m) //= gt_eqF // ltr_paddr //; by apply: sumr_ge0 => ? _; apply: ltW.
Qed.
End Normalisers.
(* The logits (1, 2) give (1/5, 4/5), and (2, 3) give (4/13, 9/13). *)
Example square_moves : let A := \matrix_(i < 2, j < 2) (j.+1)%:R : 'M[rat]_2 in
  [/\ square A 0 0 = 1 / 5%:R, square A 0 1 = 4%:R / 5%:R,
   square (shift A (const_mx 1)) 0 0 = 4%:R / 13%:R &
   square (shift A (const_mx 1)) 0 1 = 9%:R / 13%:R].
Proof. by split; rewrite !mxE !big_ord_recl big_ord0 !mxE. Qed.
Example square_rows_met : let A := \matrix_(i < 2, j < 2) (j.+1)%:R : 'M[rat]_2 in
  square A *m one _ 2 = one _ 2.
Proof. by apply: square_rows => i j; rewrite mxE pnatr_eq0. Qed.
Example under_top_met : forall A : 'M[rat]_2,
  under_top (fun y => (1 + y ^+ 2)^-1) A *m one _ 2 != one _ 2.
Proof.
move=> A; apply: under_top_rows => // y.
by rewrite invr_gt0 ltr_paddr ?sqr_ge0.
Qed.

(* Proposition 1.7 (Two layers, in order). Without value and output biases. *)
Section Order.
Variables (F : fieldType) (H n d : nat).
Definition layer (P : 'I_H -> 'M[F]_n) (W : 'I_H -> 'M[F]_d) X : 'M[F]_(n, d) :=
  \sum_h P h *m X *m W h.
Theorem order P1 P2 W1 W2 X : layer P2 W2 (layer P1 W1 X) =
  \sum_h2 \sum_h1 P2 h2 *m P1 h1 *m X *m (W1 h1 *m W2 h2).
Proof.
apply: eq_bigr => h2 _; rewrite /layer mulmx_sumr mulmx_suml.
by apply: eq_bigr => h1 _; rewrite !mulmxA.
Qed.
End Order.

(* With both products in the same order it is false: X = (1, 0)^T, W = 1, one head a layer.
   P1 and P2 are softmax of logits that differ by multiples of ln 3, so that e^difference is a power
   of 3: the first of a row exceeds the second by ln 3, -ln 3 (for P1) and by 0, -ln 3 (for P2). *)
Definition X0 : 'cV[rat]_2 := \matrix_(i, _) (i == 0)%:R.
Definition P1 : 'M[rat]_2 := 4%:R^-1 *: mx2 3%:R 1 1 3%:R.
Definition P2 : 'M[rat]_2 := 4%:R^-1 *: mx2 2%:R 2%:R 1 3%:R.
Fact P1_softmax :
  P1 = mx2 (3%:R / (3%:R + 1)) (1 / (3%:R + 1)) (1 / (1 + 3%:R)) (3%:R / (1 + 3%:R)).
Proof. by apply/matrixP => i j; rewrite !mxE; case: i j => [[|[|]]] // ? [[|[|]]]. Qed.
Fact P2_softmax : P2 = mx2 (1 / (1 + 1)) (1 / (1 + 1)) (1 / (1 + 3%:R)) (3%:R / (1 + 3%:R)).
Proof. by apply/matrixP => i j; rewrite !mxE; case: i j => [[|[|]]] // ? [[|[|]]]. Qed.
Theorem order_counterexample (W := fun _ : 'I_1 => 1%:M) :
  [/\ P1 *m one _ 2 = one _ 2, P2 *m one _ 2 = one _ 2 &
  layer (fun _ => P2) W (layer (fun _ => P1) W X0) !=
  \sum_h2 \sum_h1 P1 *m P2 *m X0 *m (W h1 *m W h2)].
Proof.
split.
- by apply/matrixP => i j; rewrite !mxE !big_ord_recl big_ord0 !mxE; case: i => [[|[|]]].
- by apply/matrixP => i j; rewrite !mxE !big_ord_recl big_ord0 !mxE; case: i => [[|[|]]].
(* The network returns (1/2, 3/8)^T, the printed order (7/16, 5/16)^T. *)
rewrite order !big_ord1 !mulmx1; apply/eqP => /matrixP/(_ 0 0)/eqP.
rewrite !mxE !big_ord_recl !big_ord0 !mxE !big_ord_recl !big_ord0 !mxE.
by apply/negP.
Qed.

(* Page 13, "The universality proof, executed"
   (notebooks/sparse_universality/the_proof_executed.ipynb).
   Lemmas 13.4 to 13.7, Theorem 13.8, Lemma 13.9 and Proposition 13.14; at the end, that heads of hardmax
   attention do what the automaton of Lemma 13.6 and Theorem 13.8 does. *)
From Coq Require Import ZArith ZifyClasses ZifyInst ZifyBool Lia.
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions patterns_and_conditions.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.


(* Whom a token has heard of after t layers of a pattern of p steps, (12.2). *)
Local Notation heard p A := (heard_of (fun t => A (t %% p)%N)).

(* Lemma 13.4 (Quantiser). *)
Section Quantiser.
Variables (R : realFieldType) (n d : nat).
Definition phi (t : R) := if (0 <= t) && (t < 1) then - t else 0.
(* the layer (r, k) adds phi(z_r - k) to entry r of every row *)
Definition quantiser_layer (rk : 'I_d * nat) (X : 'M[R]_(n, d)) : 'M_(n, d) :=
  \matrix_(i, c) (X i c + if c == rk.1 then phi (X i c - rk.2%:R) else 0).
Definition quantiser_layers K := [seq (r, k) | r <- enum 'I_d, k <- iota 0 (n * K)].
Definition run (layers : seq ('I_d * nat)) X := foldl (fun X l => quantiser_layer l X) X layers.

Lemma phi_other (i k : nat) z : i%:R <= z -> z < i.+1%:R ->
  phi (z - k%:R) = if k == i then i%:R - z else 0.
Proof.
move=> iz zi; rewrite /phi subr_ge0 ltr_subl_addl -[k%:R + 1]mulrSr; case: eqP => [->|/eqP ki].
  by rewrite iz zi opprB.
case: ifP => // /andP[kz zk]; move: ki; rewrite eqn_leq.
by rewrite -ltnS -(ltr_nat R) (le_lt_trans kz zi) -ltnS -(ltr_nat R) (le_lt_trans iz zk).
Qed.
(* an entry in [i, i + 1) is left there by all layers, and ends at i if the layer (c,
  i) is among them *)
Lemma entry layers (X : 'M[R]_(n, d)) r c (i : nat) : i%:R <= X r c < i.+1%:R ->
  i%:R <= run layers X r c < i.+1%:R /\ (((c, i) \in layers) || (X r c == i%:R) ->
    run layers X r c = i%:R).
Proof.
elim: layers X => [|[a k] layers IH] X /= Xi; first by split=> //= /eqP.
have /andP[iz zi] := Xi; have ii1 : i%:R < i.+1%:R :> R by rewrite ltr_nat.
have val : quantiser_layer (a, k) X r c = if (c, i) == (a, k) then i%:R else X r c.
  rewrite mxE /= xpair_eqE (phi_other k iz zi) [i == k]eq_sym.
  by case: (c == a); case: (k == i); rewrite ?addr0 // addrC subrK.
have [|in_i out_i] := IH (quantiser_layer (a, k) X).
  by rewrite val; case: ifP => // _; rewrite lexx.
split=> //; rewrite inE => hit; apply: out_i; rewrite val; move: hit.
by case: ((c, i) == (a, k)) => //=; rewrite eqxx orbT.
Qed.
Theorem quantise K (X : 'M[R]_(n, d)) (i : 'M[nat]_(n, d)) : (forall r c, i r c < n * K)%N ->
  (forall r c, (i r c)%:R <= X r c < (i r c).+1%:R) ->
  run (quantiser_layers K) X = \matrix_(r, c) (i r c)%:R /\
    size (quantiser_layers K) = (d * (n * K))%N.
Proof.
move=> small Xi; split; last first.
  by rewrite size_allpairs size_iota -cardE card_ord.
apply/matrixP => r c; rewrite mxE; have [_ ->] := entry (quantiser_layers K) (Xi r c) => //.
by apply/orP; left; apply/allpairsP; exists (c, i r c); rewrite mem_enum mem_iota small.
Qed.
End Quantiser.
Example quantise_half : run (quantiser_layers 2 1 1) (const_mx (1 + 2%:R^-1)) = \matrix_(_,
  _) 1%:R :> 'M[rat]_(2, 1).
Proof.
have [||e _] := @quantise _ 2 1 1 (const_mx (1 + 2%:R^-1) : 'M[rat]_(2, 1)) (\matrix_(_, _) 1%N).
- by move=> r c; rewrite mxE.
- by move=> r c; rewrite !mxE.
by rewrite e; apply/matrixP => r c; rewrite !mxE.
Qed.

(* Lemma 13.5 (Selective shift). *)
Section Shift.
Variables (R : realFieldType) (n : nat) (A : {set 'I_n}) (a : 'I_n -> R) (j : 'I_n).
Hypothesis selfloop : j \in A.
(* A hardmax head of size one with bias: query a_j - c, keys and values a_i; ties are averaged. *)
Definition winners c := [set i in A | [forall k in A, (a j - c) * a k <= (a j - c) * a i]].
Definition Psi c := mean_on (winners c) a.

Lemma average (W : {set 'I_n}) m : W != set0 -> {in W, forall i, a i = m} -> mean_on W a = m.
Proof.
move=> W0 am; rewrite /mean_on (eq_bigr (fun _ => m)) // sumr_const -[m *+ _]mulr_natr mulfK //.
by rewrite pnatr_eq0 cards_eq0.
Qed.
Lemma head_max c i : c < a j -> i \in A -> (forall k, k \in A -> a k <= a i) -> Psi c = a i.
Proof.
rewrite -subr_gt0 => q0 iA top; apply: average => [|k].
  by apply/set0Pn; exists i; rewrite inE iA; apply/forall_inP => k kA; rewrite ler_pmul2l // top.
rewrite inE => /andP[kA /forall_inP/(_ i iA)]; rewrite ler_pmul2l // => ik.
by apply/eqP; rewrite eq_le top.
Qed.
Lemma head_min c i : a j < c -> i \in A -> (forall k, k \in A -> a i <= a k) -> Psi c = a i.
Proof.
rewrite -subr_lt0 => q0 iA bot; apply: average => [|k].
  by apply/set0Pn; exists i; rewrite inE iA; apply/forall_inP => k kA; rewrite ler_nmul2l // bot.
rewrite inE => /andP[kA /forall_inP/(_ i iA)]; rewrite ler_nmul2l // => ki.
by apply/eqP; rewrite eq_le bot // andbT.
Qed.

(* The layer a_j + N (Psi(v - 1/2) - Psi(v + 1/2)), for integer ids. *)
Definition shift (N v : R) := a j + N * (Psi (v - 2%:R^-1) - Psi (v + 2%:R^-1)).
Theorem selective (N : R) (v : int) (hi lo : 'I_n) : (exists z : int, a j = z%:~R) ->
  hi \in A -> (forall k, k \in A -> a k <= a hi) -> lo \in A -> (forall k, k \in A ->
    a lo <= a k) ->
  shift N v%:~R = if a j == v%:~R then a j + N * (a hi - a lo) else a j.
Proof.
move=> [z az] hiA top loA bot; have half : 0 < 2%:R^-1 :> R by rewrite invr_gt0 ltr0n.
have half1 : 2%:R^-1 < 1 :> R by rewrite invf_lt1 ?ltr0n // ltr1n.
rewrite /shift; case: eqP => [e|/eqP ne].
  rewrite (@head_max _ hi) ?(@head_min _ lo) // e ?ltr_addl // gtr_addl oppr_lt0 //.
suff -> : Psi (v%:~R - 2%:R^-1) = Psi (v%:~R + 2%:R^-1) by rewrite subrr mulr0 addr0.
move: ne; rewrite {1}az eqr_int neq_lt => /orP[zv|vz].
  have lt : a j + 1 <= v%:~R by rewrite az -[1]/(1%:~R) -intrD ler_int lez_addr1.
  have c1 : a j < v%:~R - 2%:R^-1 by rewrite ltr_subr_addl (lt_le_trans _ lt) // addrC ltr_add2l.
  rewrite !(@head_min _ lo) //; apply: lt_trans c1 _.
  by rewrite ltr_subl_addr -addrA ltr_addl addr_gt0.
have lt : v%:~R + 1 <= a j by rewrite az -[1]/(1%:~R) -intrD ler_int lez_addr1.
have c1 : v%:~R + 2%:R^-1 < a j by rewrite (lt_le_trans _ lt) // ltr_add2l.
rewrite !(@head_max _ hi) //; apply: le_lt_trans c1.
by rewrite ler_subl_addr -addrA ler_addl addr_ge0 // ltW.
Qed.
End Shift.
(* two tokens with ids 0 and 3 that read both: token 0 has the id v = 0 and moves by N * 3 *)
Example selective_2 N (a := fun i : 'I_2 => (3 * i)%N%:R : rat) :
  shift setT a ord0 N 0%:~R = N * 3%:R.
Proof.
have e : exists z : int, a ord0 = z%:~R by exists 0.
have top k : k \in setT -> a k <= a ord_max by rewrite ler_nat leq_mul2l -ltnS ltn_ord.
have bot k : k \in setT -> a ord0 <= a k by rewrite ler_nat.
rewrite (@selective _ _ _ _ _ N 0 ord_max ord0 e) ?in_setT // /a muln0 eqxx subr0 add0r.
by rewrite /= muln1.
Qed.


(* Lemma 13.6 (Sweep). The path is gamma 0, ..., gamma (n - 1), from 0. *)
Section SweepLayers.
Local Open Scope nat_scope.
Variables (n p N B : nat) (A : nat -> 'I_n -> {set 'I_n}) (gamma : nat -> 'I_n).
Hypotheses (N1 : 1 < N) (NB : N <= B) (n0 : 0 < n).
Hypothesis gamma_onto : forall k, exists2 i, i < n & gamma i = k.
Hypothesis c2 : forall i, i.+1 < n -> exists2 l, l < p & gamma i \in A l (gamma i.+1).
(* the ids of token gamma i before the sweep lie in [low i, low i + N) *)
Definition low i := if i is j.+1 then j * B else n.-1 * B.
Variable x : nat -> nat.
Hypothesis x_low : forall i, i < n -> low i <= x i < low i + N.
(* Lemma 13.5: whoever has the id v moves by N (max - min); by condition 1 it is itself among
   those that it reads, so the minimum may start from its own id *)
Definition move (S : 'I_n -> {set 'I_n}) v (a : 'I_n -> nat) j :=
  if a j == v then a j + N * (\max_(k in S j) a k - \big[minn/a j]_(k in S j) a k) else a j.
(* stage i: for each v of the interval one sweep_layer for each step; steps without the edge wait *)
Definition stage_layers i := [seq (v, l) | v <- iota (low i) N, l <- iota 0 p].
Definition sweep_layer i (a : 'I_n -> nat) (vl : nat * nat) :=
  if gamma i.-1 \in A vl.2 (gamma i) then move (A vl.2) vl.1 a else a.
Definition stage i a := foldl (sweep_layer i) a (stage_layers i).
Fixpoint sweep_to i a := if i is j.+1 then stage i (sweep_to j a) else a.
(* (13.4) *)
Fixpoint y i := if i is j.+1 then x i + N * (y j - x i) else x 0.

(* the intervals are disjoint, and that of gamma 0 is the last *)
Lemma intervals i j : 0 < i -> i < j < n -> low i + N <= low j.
Proof.
case: i => // i _; case: j => // j /andP[ij jn] /=; have le : i.+1 * B <= j * B by rewrite
  leq_mul2r -ltnS ij orbT.
by move: le; rewrite mulSn; arith.
Qed.
Lemma interval0 i : 0 < i < n -> low i + N <= low 0.
Proof.
case: i => // i ilt /=; have le : i.+1 * B <= n.-1 * B by rewrite leq_mul2r; apply/orP; right;
  arith.
by move: le; rewrite mulSn; arith.
Qed.
(* the y_i increase, and lie above the x of the others *)
Lemma y_from i : i < n -> x 0 <= y i.
Proof.
elim: i => //= i IH ilt; have le := IH (ltnW ilt).
have := x_low ilt; have := x_low n0; have := @interval0 i.+1 ilt; set z := x i.+1 => a b c.
have : y i - z <= N * (y i - z) by rewrite -{1}[y i - z]mul1n leq_mul2r ltnW ?orbT.
by arith.
Qed.
Lemma x_below i j : i < n -> 0 < j < n -> x j < y i.
Proof.
move=> ilt jlt; have := y_from ilt; have := interval0 jlt; case/andP: jlt => _ jn.
by have := x_low jn; have := x_low n0; arith.
Qed.
Lemma y_next i : i.+1 < n -> y i < y i.+1.
Proof.
move=> ilt /=; have := @x_below i i.+1 (ltnW ilt) ilt; set z := x i.+1 => lt.
have : 2 * (y i - z) <= N * (y i - z) by rewrite leq_mul2r N1 orbT.
by arith.
Qed.
Lemma y_mono i j : i <= j -> j < n -> y i <= y j.
Proof.
move/subnK <-; elim: (j - i) => // u IH ult; rewrite addSn in ult *.
by apply: leq_trans (IH (ltnW ult)) (ltnW (y_next ult)).
Qed.

(* in stage i: who is done has y, who waits has x; b says whether gamma i has moved *)
Definition swept i b (a : 'I_n -> nat) := forall j, j < n ->
  a (gamma j) = if j < i then y j else if (j == i) && b then y j else x j.
Lemma layer_swept i b a v l : 0 < i < n -> l < p -> low i <= v < low i + N -> swept i b a ->
  swept i (b || (v == x i) && (gamma i.-1 \in A l (gamma i))) (sweep_layer i a (v, l)).
Proof.
move=> ilt lp vlow st; rewrite /sweep_layer /=; case: ifP => [edge|_]; last by rewrite andbF orbF.
rewrite andbT => j jn; rewrite /move st //; have /andP[i0 iN] := ilt.
(* nobody but gamma i has an id in the interval of stage i *)
have far0 := interval0 ilt; have x0 := x_low n0.
have [ji|ij] := ltnP j i.
  by have := y_from jn; case: eqP => // e; move: vlow; rewrite -e; arith.
have [e|ne] := eqVneq j i; last first.
  have far : low i + N <= low j by apply: intervals => //; move: ne ij jn; arith.
  have := x_low jn; case: eqP => //= e; move: vlow; rewrite -e; arith.
rewrite {}e {ij jn j} /=; have yi := y_from iN; have xi := x_below iN ilt.
case: b st => /= st; first by case: eqP => // e; move: vlow; rewrite -e; arith.
rewrite [v == x i]eq_sym; case: eqP => // e.
have all k : x i <= a k <= y i.-1.
  have [q qn <-] := gamma_onto k; rewrite st // andbF; have i1 : i.-1 < n by arith.
  case: ltnP => [qi|iq]; first by rewrite ltnW ?x_below //= y_mono //; move: qi; arith.
  have q0 : 0 < q < n by rewrite (leq_trans i0 iq).
  rewrite (ltnW (x_below i1 q0)) andbT; move: iq; rewrite leq_eqVlt => /predU1P[<- //|iq].
  have := @intervals i q i0; rewrite iq qn => /(_ isT); have := x_low qn; have := x_low iN; arith.
have a_i : a (gamma i) = x i by rewrite st // ltnn andbF.
(* it reads the maximum and, being the minimum, itself *)
have -> : \max_(k in A l (gamma i)) a k = y i.-1.
  apply/eqP; rewrite eqn_leq; apply/andP; split; first by apply/bigmax_leqP => k _;
    case/andP: (all k).
  have a_prev : a (gamma i.-1) = y i.-1 by rewrite st ?ifT //; move: i0 iN; arith.
  by rewrite -a_prev; apply: (bigmax_sup (gamma i.-1)).
have -> : \big[minn/x i]_(k in A l (gamma i)) a k = x i.
  by elim/big_rec: _ => // k m _ ->; apply/minn_idPr; case/andP: (all k).
by case: i i0 {ilt vlow far0 yi xi a_i edge iN st all e} => // i _.
Qed.
Lemma stage_swept i a : 0 < i < n -> swept i false a -> swept i true (stage i a).
Proof.
move=> ilt st; have /andP[i0 iN] := ilt; rewrite /stage.
have run s b a' : {subset s <= stage_layers i} -> swept i b a' ->
    swept i (b || has (fun vl => (vl.1 == x i) && (gamma i.-1 \in A vl.2 (gamma i))) s) (foldl
      (sweep_layer i) a' s).
  elim: s b a' => [|[v l] s IH] b a' sub st'; first by rewrite orbF.
  have /sub/allpairsP[[v' l'] [/= vi li [-> ->]]] := mem_head (v, l) s.
  rewrite /= orbA; apply: IH => [q qs|]; first by apply: sub; rewrite inE qs orbT.
  by apply: layer_swept => //; move: vi li; rewrite !mem_iota.
have := run _ _ _ (fun _ => id) st; rewrite /= (_ : has _ _ = true) //.
have [l lp edge] : exists2 l, l < p & gamma i.-1 \in A l (gamma i).
  by have := @c2 i.-1; rewrite prednK //; apply.
apply/hasP; exists (x i, l); last by rewrite /= eqxx.
by apply/allpairsP; exists (x i, l); rewrite !mem_iota x_low.
Qed.
Theorem sweep a : (forall i, i < n -> a (gamma i) = x i) ->
  (forall i, i < n -> sweep_to n.-1 a (gamma i) = y i) /\ (forall i, i.+1 < n -> y i < y i.+1) /\
  (forall i, y i.+1 = x i.+1 + N * (y i - x i.+1)).
Proof.
move=> ax; split; last by split=> // i; apply: y_next.
have : forall i, i < n -> forall j, j < n -> sweep_to i a (gamma j) = if j <= i then y j else x j.
  elim=> [|i IH] ilt j jn; first by rewrite /= ax //; case: j jn.
  have st : swept i.+1 false (sweep_to i a).
    by move=> k kn; rewrite (IH (ltnW ilt)) // ltnS; case: (k <= i); rewrite ?andbF.
  have := @stage_swept i.+1 _ ilt st j jn; rewrite /= andbT => ->.
  by rewrite [j <= i.+1]leq_eqVlt ltnS; case: eqP => [->|]; case: leqP.
move=> all i iN; rewrite all ?ifT //; move: iN; arith.
Qed.
End SweepLayers.
Section SweepBounds.
Local Open Scope nat_scope.
Variables (n N B : nat).
Hypotheses (N1 : 1 < N) (NB : N <= B) (n0 : 0 < n).
Definition in_range x := forall i, i < n -> low n B i <= x i < low n B i + N.
(* m is the value of the recursion at x_1 = (n-1)B + N - 1 and the least other ids *)
Definition extreme i := low n B i + (i == 0) * N.-1.
Lemma extreme_range : in_range extreme.
Proof. by move=> i _; rewrite /extreme; case: (i == 0); arith. Qed.
Theorem sweep_bound x : in_range x -> B < 2 * N ->
  y N x n.-1 <= y N extreme n.-1 /\ y N extreme n.-1 < 2 * n * N ^ n.
Proof.
move=> xr B2; split.
  suff le i : i < n -> y N x i <= y N extreme i by apply: le; arith.
  elim: i => [|i IH] ilt /=; first by have := xr 0 n0; rewrite /extreme; arith.
  have b := @x_below n N B N1 NB n0 x xr i i.+1 (ltnW ilt) ilt.
  have ee : extreme i.+1 = i * B by rewrite /extreme /= addn0.
  have := xr _ ilt; have := IH (ltnW ilt); rewrite ee /=.
  move: b; set z := x i.+1; set z' := i * B => b le /andP[zz _].
  have : N * ((y N x i - z) + (z - z')) <= N * (y N extreme i - z').
    by rewrite leq_mul2l; apply/orP; right; move: b le zz; arith.
  have : 1 * (z - z') <= N * (z - z') by rewrite leq_mul2r ltnW ?orbT.
  by rewrite mulnDr; move: zz; arith.
have up i : i < n -> y N extreme i <= N ^ i * extreme 0.
  elim: i => [|i IH] ilt /=; first by rewrite mul1n.
  have b := @x_below n N B N1 NB n0 extreme extreme_range i i.+1 (ltnW ilt) ilt.
  rewrite expnS -mulnA; apply: leq_trans (_ : N * y N extreme i <= _); last first.
    by rewrite leq_mul2l IH ?orbT // ltnW.
  move: b; set z := extreme i.+1 => b; rewrite -{2}(subnK (ltnW b)) mulnDr addnC leq_add2l.
  by rewrite -{1}[z]mul1n leq_mul2r ltnW ?orbT.
have last_n : n.-1 < n by arith.
have power : N ^ n = N * N ^ n.-1 by rewrite -expnS prednK.
apply: leq_ltn_trans (up _ last_n) _; rewrite power mulnA [X in _ < X]mulnC.
rewrite ltn_pmul2l ?expn_gt0 ?(ltnW N1) // /extreme /= mul1n -mulnA.
have le : n.-1 * B <= n.-1 * (2 * N) by rewrite leq_mul2l (ltnW B2) orbT.
have eN : n * N = n.-1 * N + N by rewrite -{1}(prednK n0) mulSn addnC.
by move: le; rewrite eN mulnCA; move: N1; arith.
Qed.
(* Lemma 13.7 (Residues). y_n determines the whole input. *)
Theorem residues x x' : in_range x -> in_range x' -> y N x n.-1 = y N x' n.-1 ->
  forall i, i < n -> x i = x' i.
Proof.
move=> xr xr'; suff down j : j < n -> y N x j = y N x' j -> forall i, i <= j -> x i = x' i.
  by move=> e i ilt; apply: (down n.-1) => //; move: ilt; arith.
elim: j => [|j IH] jn e i; first by rewrite leqn0 => /eqP ->.
have b := @x_below n N B N1 NB n0 x xr j j.+1 (ltnW jn) jn.
have b' := @x_below n N B N1 NB n0 x' xr' j j.+1 (ltnW jn) jn.
(* y_i is x_i modulo N, and x_i lies in a known interval of length N *)
have ex : x j.+1 = x' j.+1.
  have r := xr _ jn; have r' := xr' _ jn; move: e r r' => /=.
  move: (x j.+1) (x' j.+1) (y N x j - _) (y N x' j - _) (j * B) => a a' c c' lo e r r'.
  have : a - lo = a' - lo %[mod N].
    apply/eqP; rewrite -(eqn_modDr lo) !subnK; [|by move: r'; arith|by move: r; arith].
    by rewrite -(modnMDl c a) -(modnMDl c' a') ![_ * N]mulnC ![N * _ + _]addnC e.
  by rewrite !modn_small; move: r r'; arith.
(* then y_{i-1} = x_i + (y_i - x_i) / N *)
rewrite leq_eqVlt => /predU1P[-> //|]; rewrite ltnS; apply: IH; first exact: ltnW.
move: e b b' => /=; rewrite ex => /addnI/eqP; rewrite eqn_pmul2l ?(ltnW N1) // => /eqP.
by arith.
Qed.
End SweepBounds.
(* Example 13.1: N = B = 2; the inputs (2, 1) and (3, 1) give 3 and 5 *)
Example sweep_2 : [/\ in_range 2 2 2 (nth 0 [:: 2; 1])%N, (y 2 (nth 0 [:: 2; 1]) 1 = 3)%N
  & (y 2 (nth 0 [:: 3; 1]) 1 = 5)%N].
Proof. by split=> // -[|[|i]]. Qed.

(* Theorem 13.8 (Contextual map), the steps after (13.6). *)
(* the quotient by C^s is y_n *)
Theorem quotient (C s m y a : nat) : ((C.+1 ^ s - C ^ s) * m < C ^ s)%N -> (y <= m)%N ->
  (C ^ s * y <= a <= C.+1 ^ s * y)%N -> (a %/ C ^ s = y)%N.
Proof.
move=> gapC ym /andP[low up]; have C0 : (0 < C ^ s)%N by apply: leq_ltn_trans gapC.
apply/eqP; rewrite eqn_leq leq_divRL // mulnC low -ltnS ltn_divLR // andbT.
apply: leq_ltn_trans up _; apply: leq_trans (_ : C ^ s * y + C ^ s <= _)%N; last first.
  by rewrite mulSn addnC mulnC.
have CC : (C ^ s <= C.+1 ^ s)%N by case: (s) => // u; rewrite leq_exp2r.
rewrite -ltn_subLR ?leq_mul2r ?CC ?orbT // -mulnBl.
by apply: leq_ltn_trans gapC; rewrite leq_mul2l ym orbT.
Qed.

(* (13.6): the all-max layers a_j + C max over A_j, from the ids after the sweep *)
Section Share.
Local Open Scope nat_scope.
Variables (T : finType) (p : nat) (A : nat -> T -> {set T}) (C m : nat) (y : T -> nat) (last : T).
Hypotheses (p0 : 0 < p) (c1 : condition1 p A).
Fixpoint ids t j := if t is t'.+1 then ids t' j + C * \max_(k in A (t' %% p) j) ids t' k else y j.
Hypothesis y_last : forall j, y j <= y last.
(* above: the largest id grows by a factor of at most C + 1 a layer *)
Lemma ids_above t j : ids t j <= C.+1 ^ t * y last.
Proof.
elim: t j => [|t IH] j; first by rewrite mul1n.
rewrite expnS -mulnA mulSn; apply: leq_add => //=; apply: leq_mul => //.
by apply/bigmax_leqP => k _.
Qed.
(* below: a token that has heard from the last one is at least C^t y_n *)
Lemma ids_below t j : last \in heard p A t j -> C ^ t * y last <= ids t j.
Proof.
elim: t j => [|t IH] j; first by move/set1P <-; rewrite mul1n.
case/heardP=> k kA /IH le; rewrite expnS -mulnA /=.
apply: leq_trans (leq_addl _ _); rewrite leq_mul2l; apply/orP; right.
by apply: leq_trans le _; apply: (bigmax_sup k).
Qed.
(* modulo C the ids stay what they were *)
Lemma ids_mod t j : ids t j = y j %[mod C].
Proof. by elim: t => //= t IH; rewrite -modnDmr modnMr addn0. Qed.
Hypothesis y_inj : injective y.
Theorem shared s : full p A s -> ((C.+1 ^ s - C ^ s) * m < C ^ s) -> y last <= m -> 0 < s ->
  m < C ->
  (forall j, ids s j %/ C ^ s = y last) /\ injective (ids s).
Proof.
move=> f gapC ym s0 mC; split=> [j|j j' e].
  by apply: quotient gapC ym _; rewrite ids_above ids_below // f inE.
apply: y_inj; have := ids_mod s j; rewrite e ids_mod => /esym.
by rewrite !modn_small // (leq_ltn_trans _ mC) // (leq_trans (y_last _)).
Qed.
End Share.

(* Lemma 13.9 (Value map). *)
Section Values.
Variables (R : realFieldType) (n d K : nat).
Local Notation grid := {ffun 'I_n * 'I_d -> 'I_K}.       (* grid inputs *)
Local Notation Q := (grid * 'I_n)%type.                  (* a grid input and a token *)
Variables (u : 'cV[R]_d) (id : Q -> int).
Variables row A : Q -> 'rV[R]_d.                (* the row z with that id; the wanted row *)
Local Notation number := (number u).
Definition psi (t : R) : R := if (- 2%:R^-1 <= t) && (t < 2%:R^-1) then 1 else 0.
Definition value_layer z q := z + psi (number z - (id q)%:~R) *: (A q - row q).

Theorem values : (forall q, number (row q) = (id q)%:~R) -> injective id ->
  (forall q q', `|number (A q)| + 2%:R^-1 < (id q')%:~R) ->
  forall layers, perm_eq layers (enum [finType of Q]) ->
  (forall q, foldl value_layer (row q) layers = A q) /\ size layers = (n * K ^ (n * d))%N.
Proof.
move=> id_row id_inj above layers perm; split=> [q|]; last first.
  by rewrite (perm_size perm) -cardE card_prod card_ffun card_prod !card_ord mulnC.
have half0 : 0 < 2%:R^-1 :> R by rewrite invr_gt0 ltr0n.
have half1 : 2%:R^-1 < 1 :> R by rewrite invf_lt1 ?ltr0n // ltr1n.
(* a row that still has its id is met by its own layer alone: other integers are at least 1 away *)
have own q' : psi (number (row q) - (id q')%:~R) = (q == q')%:R.
  rewrite id_row /psi; case: (q =P q') => [->|/eqP ne]; first by rewrite subrr oppr_le0 ltW ?half0.
  have : id q != id q' by rewrite (inj_eq id_inj).
  rewrite neq_lt -!lez_addr1 -!(ler_int R) !intrD => /orP[lt|lt].
    have far : (id q)%:~R - (id q')%:~R < - 2%:R^-1 :> R.
      rewrite ltr_subl_addr addrC (le_lt_trans (_ : _ <= (id q')%:~R - 1)) ?ltr_add2l ?ltr_opp2 //.
      by rewrite ler_subr_addr.
    by rewrite leNgt far.
  have far : 2%:R^-1 <= (id q)%:~R - (id q')%:~R :> R.
    by rewrite ler_subr_addl (le_trans _ lt) // ler_add2l ltW.
  by rewrite [X in _ && X]ltNge far andbF.
(* a row that is done is met by no layer *)
have done_ q' : psi (number (A q) - (id q')%:~R) = 0.
  rewrite /psi leNgt (_ : _ < _) // ltr_subl_addr addrC ltr_subr_addr.
  by apply: le_lt_trans (above q q'); rewrite ler_add2r ler_norm.
have rest s : foldl value_layer (A q) s = A q.
  by elim: s => //= q' s IH; rewrite /value_layer done_ scale0r addr0.
have run s : foldl value_layer (row q) s = if q \in s then A q else row q.
  elim: s => //= q' s IH; rewrite inE {2}/value_layer own; case: eqP => [<-|_] /=.
    by rewrite scale1r addrCA subrr addr0 rest.
  by rewrite scale0r addr0.
by rewrite run (perm_mem perm) mem_enum.
Qed.
End Values.
(* one token, one feature, one cell: the only id is 1, the wanted row 0 *)
Example values_1 : foldl (value_layer (const_mx 1 : 'cV[rat]_1) (fun _ : {ffun 'I_1 * 'I_1 ->
  'I_1} * 'I_1 => 1)
  (fun _ => const_mx 1) (fun _ => 0)) (const_mx 1) (enum [finType of {ffun 'I_1 * 'I_1 ->
    'I_1} * 'I_1]) = 0.
Proof.
have [|||e _] := @values _ 1 1 1 (const_mx 1 : 'cV[rat]_1) (fun _ => 1) (fun _ => const_mx 1) (fun
  _ => 0) _ _ _ _ (perm_refl _).
- by move=> q; rewrite /number !mxE big_ord_recl big_ord0 !mxE.
- move=> [f i] [g j] _; congr (_, _); last by rewrite [i]ord1 [j]ord1.
  by apply/ffunP => x; rewrite [f x]ord1 [g x]ord1.
- by move=> q q'; rewrite /number mul0mx mxE normr0.
exact: (e ([ffun=> ord0], ord0)).
Qed.


(* Proposition 13.14 (Condition 3 is needed). *)
Section Hears.
Variables (T : finType) (p : nat) (A : nat -> T -> {set T}).
Hypothesis p0 : (0 < p)%N.
(* networks with the pattern: the new state of k is any function of the old states of A_k *)
Local Notation local F := (local (fun t => A (t %% p)%N) F).
(* sooner or later k hears of j if and only if a path leads from k to j in the union of the steps *)
Lemma heard_iff : condition1 p A ->
  forall k j, connect (reads A p) k j <-> exists t, j \in heard p A t k.
Proof.
move=> c1 k j; split=> [/connectP[ks]|[t]].
  elim: ks k => [|k' ks IH] k /=; first by exists 0%N; rewrite inE; apply/eqP.
  case/andP=> /existsP[l k'A] path_ks last_ks; have [t jt] := IH k' path_ks last_ks.
  exists (t * p + l).+1; apply/heardP; exists k'; first by rewrite modnMDl modn_small.
  apply: (subsetP (heard_mono p0 c1 _ _)) jt.
  by rewrite (leq_trans _ (leq_addr _ _)) // -[t in (t <= _)%N]muln1 leq_mul2l p0 orbT.
elim: t k => [|t IH] k; first by rewrite inE => /eqP ->; apply: connect0.
case/heardP=> k' k'A /IH; apply: connect_trans; apply: connect1.
by apply/existsP; exists (Ordinal (ltn_pmod t p0)).
Qed.
Lemma never_heard : condition1 p A -> ~ condition3 p A -> exists j k, forall t,
  k \notin heard p A t j.
Proof.
move=> c1 c3; have [/forallP all|/forallPn[[j k] /= none]] := boolP [forall q,
  connect (reads A p) q.1 q.2].
  (* the latest of the times at which the pairs meet would do for all *)
  have /fin_all_exists[t tP] : forall q : T * T, exists t, q.2 \in heard p A t q.1.
    by move=> q; apply/(heard_iff c1); apply: (all q).
  case: c3; exists (\max_q t q)%N => k; apply/setP => j; rewrite inE.
  by apply: (subsetP (heard_mono p0 c1 _ (leq_bigmax (k, j)))) (tP (k, j)).
exists j, k => t; apply: contra none => jt; apply/(heard_iff c1); by exists t.
Qed.

Theorem hears : condition1 p A -> ~ condition3 p A -> exists j k,
  (forall St In (embed : T -> In -> St) F, local F -> forall t X X',
     (forall i, i != k -> X i = X' i) -> state embed F t X j = state embed F t X' j) /\
  (forall (R : realFieldType) d St (embed : T -> 'rV[R]_d.+1 -> St) F (out : St -> 'rV[R]_d.+1),
    local F ->
     forall t eta, 0 < eta -> exists2 X : T -> 'rV[R]_d.+1, (forall i r, 0 <= X i 0 r < 1) &
       exists r, 2%:R^-1 - eta <= `|out (state embed F t X j) 0 r - X k 0 r|).
Proof.
move=> c1 c3; have [j [k never]] := never_heard c1 c3.
have silent St In (embed : T -> In -> St) F : local F -> forall t X X',
     (forall i, i != k -> X i = X' i) -> state embed F t X j = state embed F t X' j.
  move=> loc t X X' eqX; apply: (heard_of_state embed loc) => i it; apply: eqX.
  by apply: contraTneq it => ->.
exists j, k; split=> // R d St embed F out loc t eta eta0; set h := _ - eta.
pose X0 (i : T) : 'rV[R]_d.+1 := 0.
have X0P i r : 0 <= X0 i 0 r < 1 by rewrite mxE lexx ltr01.
have [h0|h0] := lerP h 0; first by exists X0 => //; exists ord0; apply: le_trans h0 (normr_ge0 _).
(* two inputs that differ in row k alone, by 2 h *)
pose X1 (i : T) : 'rV[R]_d.+1 := if i == k then const_mx (h + h) else 0.
have X1P i r : 0 <= X1 i 0 r < 1.
  rewrite /X1; case: eqP => _; rewrite mxE ?lexx ?ltr01 // addr_ge0 ?ltW //=.
  have two : 2%:R^-1 + 2%:R^-1 = 1 :> R by rewrite -[LHS]mulr2n -[_ *+ 2]mulr_natl mulfV //
    pnatr_eq0.
  by rewrite -two ltr_add // /h ltr_subl_addr ltr_addl.
have same : state embed F t X0 j = state embed F t X1 j.
  by apply: silent => // i ik; rewrite /X0 /X1 (negbTE ik).
have [far|near] := lerP h `|out (state embed F t X0 j) 0 0 - X0 k 0 0|; first by exists X0 => //;
  exists 0.
exists X1 => //; exists 0; rewrite -same distrC; set y := out _ 0 0 in near *.
rewrite /X1 eqxx mxE; move: near; rewrite mxE subr0 => near.
apply: le_trans (ler_norm _); rewrite -addrA ler_addl subr_ge0 ltW //.
by apply: le_lt_trans near; apply: ler_norm.
Qed.
End Hears.
(* two tokens that read themselves alone *)
Example hears_2 : condition1 1 (fun _ (k : 'I_2) => [set k]) /\
  ~ condition3 1 (fun _ (k : 'I_2) => [set k]).
Proof.
split=> [l k _|]; first by rewrite inE.
by apply: causal => // l k j _; rewrite inE => /eqP ->.
Qed.

Example never_heard_met : exists j k, forall t,
  k \notin heard 1 (fun _ (k : 'I_2) => [set k]) t j.
Proof. by have [c1 c3] := hears_2; apply: (never_heard _ c1 c3). Qed.

(* Theorem 13.8 (Contextual map). *)
Section ContextualMap.
Local Open Scope nat_scope.
Variables (n p N B C s : nat) (A : nat -> 'I_n -> {set 'I_n}) (gamma : nat -> 'I_n).
Hypotheses (N1 : 1 < N) (NB : N <= B) (n0 : 0 < n) (p0 : 0 < p) (s0 : 0 < s).
Hypotheses (c1 : condition1 p A) (c3 : full p A s).
Hypothesis gamma_onto : forall k, exists2 i, i < n & gamma i = k.
Hypothesis c2 : forall i, i.+1 < n -> exists2 l, l < p & gamma i \in A l (gamma i.+1).
Let m := y N (extreme n N B) n.-1.
Hypothesis B2 : B < 2 * N.
Hypothesis gapC : (C.+1 ^ s - C ^ s) * m < C ^ s.     (* (13.5) *)
(* the ids after the sweep and s all-max layers *)
Definition context a := ids p A C (sweep_to p N B A gamma n.-1 a) s.
Lemma m_lt_C : m < C.
Proof.
have C0 : 0 < C ^ s.-1.
  rewrite lt0n; apply/eqP => e; have z : C ^ s = 0 by rewrite -(prednK s0) expnS e muln0.
  by move: gapC; rewrite z ltn0.
rewrite -(ltn_pmul2l C0) -[X in _ < X]mulnC -expnS prednK //.
apply: leq_ltn_trans gapC; rewrite leq_mul2r; apply/orP; right.
rewrite leq_subRL; last by rewrite leq_exp2r.
rewrite -(prednK s0) expnS [C.+1 ^ _]expnS -mulSnr leq_mul2l /=.
by case: (s.-1) => // q; rewrite leq_exp2r.
Qed.
Theorem contextual_map x a : in_range n N B x -> (forall i, i < n -> a (gamma i) = x i) ->
  (forall j, context a j %/ C ^ s = y N x n.-1) /\ injective (context a).
Proof.
move=> xr ax; have [ya [next _]] := sweep N1 NB n0 gamma_onto c2 xr ax.
have ym : y N x n.-1 <= m by case: (sweep_bound N1 NB n0 xr B2).
have last_n : n.-1 < n by arith.
have mono i j : i <= j -> j < n -> y N x i <= y N x j by apply: (y_mono N1 NB n0 xr).
rewrite -(ya _ last_n); apply: (shared (m := m)) => //; last exact: m_lt_C.
- by move=> j; have [i ilt <-] := gamma_onto j; rewrite !ya //; apply: mono => //; arith.
- move=> j j'; have [i ilt <-] := gamma_onto j; have [i' ilt' <-] := gamma_onto j'.
  rewrite !ya // => e; congr gamma; have [lt|gt|//] := ltngtP i i'.
    by have := next i (leq_ltn_trans lt ilt'); have := mono i.+1 i' lt ilt'; rewrite e; arith.
  by have := next i' (leq_ltn_trans gt ilt); have := mono i'.+1 i gt ilt; rewrite e; arith.
by rewrite ya.
Qed.
Theorem context_distinct x x' a a' : in_range n N B x -> in_range n N B x' ->
  (forall i, i < n -> a (gamma i) = x i) -> (forall i, i < n -> a' (gamma i) = x' i) ->
  forall j j', context a j = context a' j' -> j = j' /\ forall i, i < n -> x i = x' i.
Proof.
move=> xr xr' ax ax' j j' e; have [q inj] := contextual_map xr ax.
have [q' _] := contextual_map xr' ax'.
have same : forall i, i < n -> x i = x' i.
  by apply: (residues N1 NB n0 xr xr'); rewrite -(q j) -(q' j') e.
have aa : a =1 a' by move=> k; have [i ilt <-] := gamma_onto k; rewrite ax ?ax' // same.
have [ya _] := sweep N1 NB n0 gamma_onto c2 xr ax.
have [ya' _] := sweep N1 NB n0 gamma_onto c2 xr' ax'.
split=> //; apply: inj; rewrite e /context.
have eq_y : sweep_to p N B A gamma n.-1 a' =1 sweep_to p N B A gamma n.-1 a.
  move=> k; have [i ilt <-] := gamma_onto k; rewrite ya ?ya' //.
  by elim: i ilt => [|i IH] ilt /=; rewrite -?same // IH // ltnW.
clear e q q'; elim: (s) j' => [|t IH] k /=; first exact: eq_y.
by rewrite IH; congr (_ + _ * _); apply: eq_bigr => i _; apply: IH.
Qed.
End ContextualMap.
(* Example 13.1: two tokens, two cells, dense attention, C = 7 *)
Example context_7 x a : in_range 2 2 2 x -> (forall i, (i < 2)%N -> a (inord i : 'I_2) = x i) ->
  forall j, (@context 2 1 2 2 7 1 (fun _ _ => setT) inord a j %/ 7 = y 2 x 1)%N.
Proof.
pose D (_ : nat) (_ : 'I_2) := [set: 'I_2] => xr ax.
have [q _] : (forall j, @context 2 1 2 2 7 1 D inord a j %/ 7 ^ 1 = y 2 x 1)%N /\
    injective (@context 2 1 2 2 7 1 D inord a).
  apply: contextual_map xr ax => //.
  - by move=> k; apply/setP => i; rewrite [RHS]inE; apply/heardP; exists i; rewrite inE.
  - by move=> k; exists k; rewrite ?inord_val.
  by move=> i _; exists 0%N; rewrite ?inE.
exact: q.
Qed.

(* The automaton and the heads: on ids that are whole numbers, the layers of hardmax heads of
   Lemma 13.5 do what `move`, the sweep and the all-max layers do with natural numbers. *)
Section Heads.
Variables (R : realFieldType) (n p N B C s : nat) (A : nat -> 'I_n -> {set 'I_n}) (gamma : nat -> 'I_n).
Hypotheses (p0 : (0 < p)%N) (c1 : condition1 p A).
Implicit Types (S : 'I_n -> {set 'I_n}) (a : 'I_n -> nat) (z : 'I_n -> R).
(* One layer of two heads, Psi_(v - 1/2) and Psi_(v + 1/2). *)
Definition shift_layer S (v : nat) z j := shift (S j) z j N%:R v%:R.
(* Step 4: one head, a + C Psi_(-1/2)(a). *)
Definition max_layer S z j := z j + C%:R * Psi (S j) z j (- 2%:R^-1).
Definition head_sweep_layer i z (vl : nat * nat) :=
  if gamma i.-1 \in A vl.2 (gamma i) then shift_layer (A vl.2) vl.1 z else z.
Definition head_stage i z := foldl (head_sweep_layer i) z (stage_layers n p N B i).
Fixpoint head_sweep i z := if i is j.+1 then head_stage i (head_sweep j z) else z.
Fixpoint head_share t z := if t is t'.+1 then max_layer (A (t' %% p)%N) (head_share t' z) else z.
(* The contextual map, by n - 1 stages of the sweep and s all-max layers. *)
Definition head_context z := head_share s (head_sweep n.-1 z).

Definition real_ids a : 'I_n -> R := fun k => (a k)%:R.
Lemma winners_ext (W : {set 'I_n}) z z' j c : z =1 z' -> winners W z j c = winners W z' j c.
Proof.
move=> e; apply/setP => i; rewrite !inE; congr (_ && _).
by apply/idP/idP => /forall_inP h; apply/forall_inP => k kS; move: (h k kS); rewrite -?e ?e.
Qed.
Lemma Psi_ext (W : {set 'I_n}) z z' j c : z =1 z' -> Psi W z j c = Psi W z' j c.
Proof.
move=> e; rewrite /Psi (winners_ext _ _ _ e); congr (_ / _); apply: eq_bigr => i _; exact: e.
Qed.
Lemma shift_layer_ext S v z z' : z =1 z' -> shift_layer S v z =1 shift_layer S v z'.
Proof. by move=> e j; rewrite /shift_layer /shift e !(Psi_ext _ _ _ e). Qed.
Lemma max_layer_ext S z z' : z =1 z' -> max_layer S z =1 max_layer S z'.
Proof. by move=> e j; rewrite /max_layer e (Psi_ext _ _ _ e). Qed.

Lemma top_of (W : {set 'I_n}) a j : j \in W ->
  exists2 i, i \in W & (forall k, k \in W -> (a k <= a i)%N) /\ (\max_(k in W) a k)%N = a i.
Proof.
move=> jW; case: (@arg_maxnP _ j (mem W) a jW) => i iW top; exists i => //; split=> //.
apply/eqP; rewrite eqn_leq; apply/andP; split; first by apply/bigmax_leqP => k /top.
exact: (bigmax_sup i).
Qed.
Lemma bottom_of (W : {set 'I_n}) a j : j \in W -> exists2 i, i \in W &
  (forall k, k \in W -> (a i <= a k)%N) /\ \big[minn/a j]_(k in W) a k = a i.
Proof.
move=> jW; case: (@arg_minnP _ j (mem W) a jW) => i iW' bot; have iW : i \in W := iW'; exists i => //; split=> //.
apply/eqP; rewrite eqn_leq; apply/andP; split.
  have : i \in index_enum [finType of 'I_n] by rewrite mem_index_enum.
  elim: (index_enum _) => // k r ih; rewrite inE big_cons => /predU1P[<-|/ih le].
    by rewrite iW geq_minl.
  by case: ifP => // _; apply: leq_trans le; rewrite geq_minr.
by elim/big_rec: _ => [|k m kW ih]; [exact: bot | rewrite leq_min ih bot].
Qed.

Lemma shift_layerE S v a : (forall j, j \in S j) ->
  shift_layer S v (real_ids a) =1 real_ids (move N S v a).
Proof.
move=> self j; have [hi hiS [top maxE]] := top_of a (self j).
have [lo loS [bot minE]] := bottom_of a (self j).
have sel := @selective R n (S j) (real_ids a) j N%:R (Posz v) hi lo.
rewrite /shift_layer [v%:R](_ : _ = (Posz v)%:~R) // sel //; first last.
- by move=> k kS; rewrite ler_nat bot.
- by move=> k kS; rewrite ler_nat top.
- by exists (Posz (a j)).
rewrite /real_ids /move -[(Posz v)%:~R]/(v%:R) eqr_nat; case: eqP => // _.
by rewrite maxE minE natrD natrM natrB // top.
Qed.
Lemma max_layerE S a : (forall j, j \in S j) ->
  max_layer S (real_ids a) =1 real_ids (fun j => (a j + C * \max_(k in S j) a k)%N).
Proof.
move=> self j; have [hi hiS [top maxE]] := top_of a (self j).
rewrite /max_layer (@head_max _ _ (S j) (real_ids a) j _ hi) //.
- by rewrite /real_ids maxE natrD natrM.
- by apply: lt_le_trans (ler0n _ _); rewrite oppr_lt0 invr_gt0 ltr0n.
- by move=> k kS; rewrite ler_nat top.
Qed.

Lemma head_stageE i z a : z =1 real_ids a ->
  head_stage i z =1 real_ids (stage p N B A gamma i a).
Proof.
rewrite /head_stage /stage; have : all (fun vl => vl.2 < p)%N (stage_layers n p N B i).
  by apply/allP => vl /allpairsP[q [_ /=]]; rewrite mem_iota => lp ->.
elim: (stage_layers _ _ _ _ _) z a => [|[v l] r IH] z a //= /andP[lp all_r] e.
apply: IH => // j; rewrite /head_sweep_layer /sweep_layer /=; case: ifP => _; last exact: e.
by rewrite (shift_layer_ext _ _ e) shift_layerE // => k; apply: c1.
Qed.
Lemma head_sweepE i z a : z =1 real_ids a -> head_sweep i z =1 real_ids (sweep_to p N B A gamma i a).
Proof. by move=> e; elim: i => //= i; apply: head_stageE. Qed.
Lemma head_shareE t z a : z =1 real_ids a -> head_share t z =1 real_ids (ids p A C a t).
Proof.
move=> e; elim: t => //= t IH j; rewrite (max_layer_ext _ IH) max_layerE // => k.
by apply: c1; rewrite ltn_pmod.
Qed.
Theorem head_contextE a : head_context (real_ids a) =1 real_ids (context p N B C s A gamma a).
Proof. by apply: head_shareE; apply: head_sweepE. Qed.
End Heads.

(* (13.3): the id of a row of grid numbers z_0, ..., z_(d-1) < K is the sum of the z_c K^c. *)
Section Grid.
Local Open Scope nat_scope.
Lemma digits_lt K d (f : nat -> nat) : (forall c, c < d -> f c < K) -> \sum_(c < d) f c * K ^ c < K ^ d.
Proof.
elim: d => [|d IH] fK; first by rewrite big_ord0.
rewrite big_ord_recr /= expnS.
have lt : \sum_(c < d) f c * K ^ c < K ^ d by apply: IH => c cd; apply: fK; apply: ltnW.
apply: leq_trans (_ : (f d).+1 * K ^ d <= _); first by rewrite mulSn ltn_add2r.
by rewrite leq_mul2r fK ?orbT.
Qed.
Lemma digits_inj K d (f g : nat -> nat) : (forall c, c < d -> f c < K) -> (forall c, c < d -> g c < K) ->
  \sum_(c < d) f c * K ^ c = \sum_(c < d) g c * K ^ c -> forall c, c < d -> f c = g c.
Proof.
elim: d => // d IH fK gK; rewrite !big_ord_recr /=.
have lt h : (forall c, c < d.+1 -> h c < K) -> \sum_(c < d) h c * K ^ c < K ^ d.
  by move=> hK; apply: digits_lt => c cd; apply: hK; apply: ltnW.
have Kd : 0 < K ^ d by apply: leq_ltn_trans (lt f fK).
move=> e; have ed : f d = g d.
  have := congr1 (fun m => m %/ K ^ d) e; rewrite /= !divnDMl // !divn_small ?lt //.
move: e; rewrite ed => /addIn e c; rewrite ltnS leq_eqVlt => /predU1P[-> //|cd].
by apply: IH e c cd => b bd; [apply: fK | apply: gK]; apply: ltnW.
Qed.

Variables (n d p K B C s : nat) (A : nat -> 'I_n -> {set 'I_n}) (gamma : nat -> 'I_n).
Let N := K ^ d.
Hypotheses (N1 : 1 < N) (NB : N <= B) (n0 : 0 < n) (p0 : 0 < p) (s0 : 0 < s).
Hypotheses (c1 : condition1 p A) (c3 : full p A s).
Hypothesis gamma_onto : forall k, exists2 i, i < n & gamma i = k.
Hypothesis c2 : forall i, i.+1 < n -> exists2 l, l < p & gamma i \in A l (gamma i.+1).
Hypothesis B2 : B < 2 * N.
Hypothesis gapC : (C.+1 ^ s - C ^ s) * y N (extreme n N B) n.-1 < C ^ s.     (* (13.5) *)
Local Notation grid := {ffun 'I_n * 'I_d -> 'I_K}.
Definition row_id (g : grid) j := \sum_(c < d) g (j, c) * K ^ c.
(* A position code adds e_j to the id of token j, so that those of gamma i begin at low i. *)
Variable e : 'I_n -> nat.
Hypothesis codes : forall i, i < n -> e (gamma i) = low n B i.
Definition input_id (g : grid) j := e j + row_id g j.

Lemma row_id_lt g j : row_id g j < N.
Proof.
rewrite /row_id; have [d0|d_gt0] := posnP d.
  by rewrite big1 ?(ltnW N1) // => c _; have := ltn_ord c; rewrite [X in _ < X]d0.
pose f c := if insub c is Some c' then (g (j, c') : nat) else 0.
have -> : \sum_(c < d) g (j, c) * K ^ c = \sum_(c < d) f c * K ^ c.
  by apply: eq_bigr => c _; rewrite /f valK.
by apply: digits_lt => c cd; rewrite /f insubT /=.
Qed.
Lemma row_id_inj g g' j : row_id g j = row_id g' j -> forall c, g (j, c) = g' (j, c).
Proof.
pose f (h : grid) c := if insub c is Some c' then (h (j, c') : nat) else 0.
have E h : row_id h j = \sum_(c < d) f h c * K ^ c by apply: eq_bigr => c _; rewrite /f valK.
have lt h c : c < d -> f h c < K by move=> cd; rewrite /f insubT /=.
rewrite !E => /(digits_inj (lt g) (lt g')) same c; apply: val_inj.
by have := same c (ltn_ord c); rewrite /f !valK.
Qed.
Lemma input_range g : in_range n N B (fun i => input_id g (gamma i)).
Proof.
by move=> i ilt; rewrite /input_id codes // leq_addr ltn_add2l row_id_lt.
Qed.

(* Theorem 13.8, from grid inputs to ids, by the heads: the ids are whole numbers, all n K^(nd) are
   distinct, and the quotient by C^s is y_n. *)
Theorem grid_contexts (R : realFieldType) :
  let id g := context p N B C s A gamma (input_id g) in
  [/\ forall g j, head_context p N B C s A gamma (fun k => (input_id g k)%:R : R) j = ((id g j)%:R)%R,
      injective (fun q : grid * 'I_n => id q.1 q.2),
      #|[finType of grid * 'I_n]| = n * K ^ (n * d) &
      forall g j, id g j %/ C ^ s = y N (fun i => input_id g (gamma i)) n.-1].
Proof.
move=> id; split=> [g j|[g j] [g' j'] /= eq_id||g j].
- exact: head_contextE.
- have [] := context_distinct N1 NB n0 p0 s0 c3 gamma_onto c2 B2 gapC (input_range g)
    (input_range g') (fun i _ => erefl) (fun i _ => erefl) eq_id.
  move=> <- same; congr (_, _); apply/ffunP => -[k c]; have [i ilt <-] := gamma_onto k.
  by apply: row_id_inj; have := same i ilt; rewrite /input_id => /addnI.
- by rewrite card_prod card_ffun card_prod !card_ord mulnC.
by have [q _] := contextual_map N1 NB n0 p0 s0 c3 gamma_onto c2 B2 gapC (input_range g)
  (fun i _ => erefl); apply: q.
Qed.
End Grid.

(* Page 24: Five theorems, one matrix (Theorem 24.2) *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import identities.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Rank.
Variables (R : realFieldType) (n r : nat).

(* Theorem 24.2 (a): r + 1 different columns have an entry of at least e, in some rows rho. *)
Theorem rank_against_pattern (P B : 'M[R]_n) (col rho : 'I_r.+1 -> 'I_n) e :
  (forall i j, 0 <= P i j) -> (forall i, \sum_j P i j = 1) -> (\rank B <= r)%N ->
  injective col -> (forall c, e <= P (rho c) (col c)) ->
  exists i, 2%:R * e - 1 <= \sum_j `|P i j - B i j|.
Proof.
move=> P0 P1 rB colI big.
(* x is not zero, lives on the columns [col], and B x = 0. *)
pose S := \matrix_(c < r.+1, j < n) (j == col c)%:R : 'M[R]_(r.+1, n).
have [y y0 yB] : exists2 y : 'rV[R]_r.+1, y != 0 & y *m (S *m B^T) = 0.
  have : kermx (S *m B^T) != 0.
    rewrite -mxrank_eq0 mxrank_ker -lt0n subn_gt0 ltnS (leq_trans (mxrankS (submxMl _ _))) //.
    by rewrite mxrank_tr.
  by case/rowV0Pn => y /sub_kermxP yB y_neq0; exists y.
have SE (f : 'I_n -> R) : \sum_j f j * (y *m S) 0 j = \sum_c y 0 c * f (col c).
  under eq_bigr do rewrite mxE mulr_sumr; rewrite exchange_big; apply: eq_bigr => c _ /=.
  rewrite (bigD1 (col c)) //= big1 => [|j /negbTE jc]; rewrite !mxE ?eqxx ?jc ?mulr0 //.
  by rewrite mulr1 addr0 mulrC.
have Bx i : \sum_c y 0 c * B i (col c) = 0.
  transitivity ((y *m S *m B^T) 0 i); last by rewrite -mulmxA yB mxE.
  by rewrite mxE -(SE (B i)); apply: eq_bigr => j _; rewrite [B^T _ _]mxE mulrC.
(* c has the largest |y c|; rescale to 1. *)
have [c0 yc0] : exists c0, y 0 c0 != 0.
  by apply/existsP; apply: contraNT y0 => /existsPn z; apply/eqP/rowP => c; rewrite mxE;
    apply/eqP; rewrite -[_ == _]negbK z.
case: (@arg_maxP _ _ _ c0 predT (fun c => `|y 0 c|) isT) => c _ /= maxc.
have a0 : 0 < `|y 0 c| by apply: lt_le_trans (maxc c0 isT); rewrite normr_gt0.
exists (rho c); set i := rho c.
have sub (F : 'I_n -> R) : (forall j, 0 <= F j) -> \sum_k F (col k) <= \sum_j F j.
  move=> F0; have -> : \sum_k F (col k) = \sum_(j in col @: 'I_r.+1) F j.
    by rewrite big_imset //= => ? ? _ _; apply: colI.
  by rewrite [X in _ <= X](bigID (mem (col @: 'I_r.+1))) /= ler_addl sumr_ge0.
(* |(P x)_i| >= (e - (1 - e)) |x|, and P x = (P - B) x. *)
have Pe := big c; rewrite -/i in Pe.
have low : (2%:R * e - 1) * `|y 0 c| <= `|\sum_k y 0 k * P i (col k)|.
  have rest : `|\sum_(k | k != c) y 0 k * P i (col k)| <= (1 - P i (col c)) * `|y 0 c|.
    apply: le_trans (ler_norm_sum _ _ _) _.
    apply: le_trans (_ : \sum_(k | k != c) P i (col k) * `|y 0 c| <= _); last first.
      rewrite -mulr_suml ler_wpmul2r // ler_subr_addl; have := sub (P i) (P0 i).
      by rewrite P1 (bigD1 c).
    by apply: ler_sum => k _; rewrite normrM (ger0_norm (P0 _ _)) mulrC ler_wpmul2l ?maxc.
  rewrite (bigD1 c) //=; apply: le_trans (ler_sub_norm_add _ _).
  rewrite normrM (ger0_norm (P0 _ _)) ler_subr_addr; apply: le_trans (ler_add (lexx _) rest) _.
  rewrite -mulrDl mulrC ler_wpmul2l //.
  by rewrite addrA subrK ler_subl_addr; move: (ler_add Pe Pe); rewrite -mulr2n -[e *+ 2]mulr_natl.
have up : `|\sum_k y 0 k * P i (col k)| <= `|y 0 c| * \sum_j `|P i j - B i j|.
  have -> : \sum_k y 0 k * P i (col k) = \sum_k y 0 k * (P i (col k) - B i (col k)).
    transitivity (\sum_k y 0 k * P i (col k) - \sum_k y 0 k * B i (col k));
      first by rewrite Bx subr0.
    by rewrite -sumrB; apply: eq_bigr => k _; rewrite mulrBr.
  apply: le_trans (ler_norm_sum _ _ _) _.
  apply: (@le_trans _ _ (`|y 0 c| * \sum_k `|P i (col k) - B i (col k)|)).
    by rewrite mulr_sumr; apply: ler_sum => k _; rewrite normrM ler_wpmul2r ?maxc.
  by rewrite ler_wpmul2l // (sub (fun j => `|P i j - B i j|)).
by rewrite -(ler_pmul2r a0) (le_trans low) // mulrC.
Qed.
End Rank.

(* The trace of a matrix of rank r is at most r times its largest absolute row sum. The page takes
   eigenvalues; here r rows are chosen whose determinant is largest. *)
Section Trace.
Variable R : realFieldType.
Lemma replaced_row r (u : 'rV[R]_r) (i : 'I_r) :
  \det (\matrix_(k, l) (if k == i then u 0 l else (k == l)%:R)) = u 0 i.
Proof.
rewrite (expand_det_col _ i) (bigD1 i) //= big1 => [|k /negbTE ki]; last by rewrite mxE ki mul0r.
rewrite addr0 mxE eqxx /cofactor -signr_odd addnn odd_double expr0 mul1r.
rewrite (_ : row' i _ = 1%:M) ?det1 ?mulr1 //; apply/matrixP => k l; rewrite !mxE.
by rewrite eq_sym (negbTE (neq_lift i k)) (inj_eq lift_inj).
Qed.
Lemma trace_rank j (B : 'M[R]_j) M : 0 <= M -> (forall i, \sum_l `|B i l| <= M) ->
  \tr B <= (\rank B)%:R * M.
Proof.
move=> M0 rows; pose r := \rank B.
have [U [D [BUD Ur]]] : exists (U : 'M[R]_(j, r)) (D : 'M_(r, j)), B = U *m D /\ row_full U.
  by exists (col_base B), (row_base B); rewrite mulmx_base col_base_full.
(* the choice of rows f with the largest determinant, which is not 0 *)
pose vol (f : {ffun 'I_r -> 'I_j}) := `|\det (rowsub f U)|.
pose f0 : {ffun 'I_r -> 'I_j} := fullrankfun Ur.
case: (@arg_maxP _ _ _ f0 predT vol isT) => f _ maxf.
pose A := rowsub f U.
have vol0 : 0 < vol f.
  apply: lt_le_trans (maxf f0 isT); rewrite normr_gt0.
  by have := fullrowsub_unit Ur; rewrite unitmxE unitfE.
have Au : A \in unitmx by move: vol0; rewrite normr_gt0 unitmxE unitfE.
(* in the basis of those rows, V = U A^-1, no entry exceeds 1: it is a quotient of determinants *)
pose V := U *m invmx A.
have V1 l i : `|V l i| <= 1.
  pose g : {ffun 'I_r -> 'I_j} := [ffun k => if k == i then l else f k].
  have gE : rowsub g U = (\matrix_(k, m) (if k == i then (row l V) 0 m else (k == m)%:R)) *m A.
    apply/row_matrixP => k; rewrite row_mul.
    have -> : row k (rowsub g U) = row (g k) U by apply/rowP => m; rewrite !mxE.
    rewrite ffunE; case: eqP => [->|/eqP ki].
      have -> : row i (\matrix_(k, m) (if k == i then (row l V) 0 m else (k == m)%:R)) = row l V.
        by apply/rowP => m; rewrite !mxE eqxx.
      by rewrite -row_mul mulmxKV.
    have -> : row k (\matrix_(k, m) (if k == i then (row l V) 0 m else (k == m)%:R)) = row k 1%:M.
      by apply/rowP => m; rewrite !mxE (negbTE ki).
    by rewrite -row_mul mul1mx; apply/rowP => m; rewrite !mxE.
  have vg : vol g = `|V l i| * vol f by rewrite /vol gE det_mulmx replaced_row normrM mxE.
  by have := maxf g isT; rewrite /= vg -[X in _ <= X]mul1r ler_pmul2r.
(* so tr B is the sum of r numbers, each at most a row sum *)
have AV : rowsub f V = 1%:M by rewrite -[1%:M](mulmxV Au) /A; apply/matrixP => k m; rewrite !mxE;
  apply: eq_bigr => l _; rewrite !mxE.
have BV : B = V *m rowsub f B.
  have e : rowsub f B = A *m D by rewrite BUD; apply/matrixP => k m; rewrite !mxE; apply: eq_bigr =>
    l _; rewrite !mxE.
  by rewrite e mulmxA mulmxKV.
rewrite {1}BV mxtrace_mulC /mxtrace mulr_natl -[X in _ *+ X]card_ord -sumr_const.
apply: ler_sum => i _; apply: le_trans (rows (f i)); rewrite mxE; apply: ler_sum => l _.
rewrite mxE; apply: le_trans (ler_norm _) _; rewrite normrM -[X in _ <= X]mulr1.
by rewrite ler_wpmul2l.
Qed.
End Trace.

(* The columns in the order of their largest entries e_1 >= e_2 >= ... *)
Section Order.
Variables (R : realFieldType) (n : nat) (P : 'M[R]_n).
Definition rho (j : 'I_n) : 'I_n := [arg max_(i > j) P i j]%O.
Definition top j := P (rho j) j.
Lemma top_max i j : P i j <= top j.
Proof. by rewrite /top /rho; case: arg_maxP => //= l _ max; exact: max. Qed.
Definition cols := sort (fun j l => top l <= top j) (enum 'I_n).
(* The column of rank k + 1, and its largest entry e_(k+1) of the page. *)
Definition col (k : 'I_n) := nth k cols k.
Definition e (k : 'I_n) := top (col k).
Lemma size_cols : size cols = n. Proof. by rewrite size_sort size_enum_ord. Qed.
Lemma col_inj : injective col.
Proof.
move=> k l /eqP; rewrite /col (set_nth_default l) ?size_cols // nth_uniq ?size_cols ?ltn_ord //.
  by move/eqP/val_inj.
by rewrite sort_uniq enum_uniq.
Qed.
Lemma e_dec (k l : 'I_n) : (k <= l)%N -> e l <= e k.
Proof.
move=> kl; rewrite /e /col; have tr : transitive (fun j l => top l <= top j).
  by move=> a b c ba ac; apply: le_trans ac ba.
have srt : sorted (fun j l => top l <= top j) cols by apply: sort_sorted => a b; exact: le_total.
rewrite (set_nth_default k) ?size_cols //.
by apply: (sorted_leq_nth tr (fun a => lexx (top a)) k srt); rewrite ?inE ?size_cols.
Qed.

Hypotheses (P0 : forall i j, 0 <= P i j) (P1 : forall i, \sum_j P i j = 1).
(* Theorem 24.2 (a): the row sums of |P - B| reach 2 e_(r+1) - 1. *)
Theorem rank_first (r : 'I_n) (B : 'M[R]_n) : (\rank B <= r)%N ->
  exists i, 2%:R * e r - 1 <= \sum_j `|P i j - B i j|.
Proof.
move=> rB; pose w (c : 'I_r.+1) : 'I_n := widen_ord (ltn_ord r) c.
apply: (rank_against_pattern (col := col \o w) (rho := rho \o (col \o w))) => //.
  by apply: inj_comp; [exact: col_inj | move=> a b /(congr1 val)/= ab; apply: val_inj].
by move=> c; apply: (@e_dec (w c) r); exact: (ltn_ord c).
Qed.
(* Theorem 24.2 (b): for r < j <= n, if no row sum of |P - B| exceeds t, then
   (e_1 + ... + e_j - r) / (j + r) <= t. *)
Theorem rank_second r j (jn : (j <= n)%N) (B : 'M[R]_n) t : (\rank B <= r)%N -> (r < j)%N ->
  (forall i, \sum_l `|P i l - B i l| <= t) ->
  (\sum_(k < j) e (widen_ord jn k) - r%:R) / (j + r)%:R <= t.
Proof.
move=> rB rj bound; pose c (k : 'I_j) := col (widen_ord jn k).
have cI : injective c by move=> a b /col_inj/(congr1 val)/= ab; apply: val_inj.
pose B' : 'M[R]_j := \matrix_(k, l) B (rho (c k)) (c l).
have rB' : (\rank B' <= r)%N.
  have -> : B' = rowsub (rho \o c) B *m (\matrix_(i, l) (i == c l)%:R).
    apply/matrixP => k l; rewrite !mxE (bigD1 (c l)) //= !mxE eqxx mulr1 big1 ?addr0 // => i.
    by move=> /negbTE il; rewrite !mxE il mulr0.
  apply: leq_trans (mxrankM_maxl _ _) _; rewrite rowsubE.
  by apply: leq_trans (mxrankM_maxr _ _) rB.
have t0 : 0 <= t by apply: le_trans (bound (c (Ordinal rj))); apply: sumr_ge0.
(* no row sum of |B'| exceeds 1 + t *)
have rows k : \sum_l `|B' k l| <= 1 + t.
  set i := rho (c k); apply: (@le_trans _ _ (\sum_l `|B i l|)).
    rewrite (eq_bigr (fun l => `|B i (c l)|)) => [|l _]; last by rewrite mxE.
    rewrite -(big_imset (fun l => `|B i l|) (in2W cI)) /= [X in _ <= X](bigID (mem (c @: 'I_j))) /=.
    by rewrite ler_addl sumr_ge0.
  rewrite -(P1 i); apply: le_trans (ler_add (lexx _) (bound i)); rewrite -big_split.
  apply: ler_sum => l _ /=; rewrite -{1}(ger0_norm (P0 i l)) distrC.
  by rewrite -{1}(subrK (P i l) (B i l)) addrC ler_norm_add.
have tr : \tr B' <= r%:R * (1 + t).
  apply: le_trans (trace_rank _ rows) _; first by rewrite addr_ge0 ?ler01.
  by rewrite ler_wpmul2r ?ler_nat // addr_ge0 ?ler01.
have sum : \sum_(k < j) e (widen_ord jn k) <= r%:R * (1 + t) + j%:R * t.
  have -> : \sum_(k < j) e (widen_ord jn k) = \tr B' + \sum_k (P (rho (c k)) (c k) - B' k k).
    by rewrite -big_split; apply: eq_bigr => k _ /=; rewrite addrCA subrr addr0.
  apply: ler_add tr _; rewrite -[j in X in _ <= X]card_ord mulr_natl -sumr_const.
  apply: ler_sum => k _; apply: le_trans (bound (rho (c k))); apply: le_trans (ler_norm _) _.
  by rewrite mxE (bigD1 (c k)) //= ler_addl sumr_ge0.
rewrite ler_pdivr_mulr ?ltr0n ?addn_gt0 ?(leq_ltn_trans _ rj) //.
rewrite ler_subl_addl; apply: le_trans sum _.
have -> : (j + r)%:R = j%:R + r%:R :> R by rewrite natrD.
by move: (j%:R) (r%:R) => a b; rewrite le_eqVlt; apply/orP; left; apply/eqP; ident.
Qed.
End Order.

(* Theorem 24.2: (a) is attained for all n >= 2, n/2 <= r < n and 1/2 < e <= 1. *)
Section Attained.
Variables (R : realFieldType) (n : nat) (e0 : R).
Hypotheses (n2 : (1 < n)%N) (e1 : 2%:R^-1 < e0) (e2 : e0 <= 1).
(* Tokens 2m and 2m + 1 are partners; if n is odd, the last one has none. *)
Definition partner (i j : 'I_n) := (i./2 == j./2) && (i != j).
Definition paired (i : 'I_n) := [exists j, partner i j].
(* Blocks (e, 1 - e; 1 - e, e), and a single 1; for B all blocks are uniform. *)
Definition P2 : 'M[R]_n := \matrix_(i, j)
  if i == j then if paired i then e0 else 1 else if partner i j then 1 - e0 else 0.
Definition B2 : 'M[R]_n := \matrix_(i, j)
  if i == j then if paired i then 2%:R^-1 else 1 else if partner i j then 2%:R^-1 else 0.
Lemma partner_uniq i j l : partner i j -> partner i l -> j = l.
Proof.
move=> /andP[/eqP ij nij] /andP[/eqP il nil]; apply/val_inj => /=.
have half (a : nat) : a = (odd a + a./2.*2)%N by rewrite odd_double_half.
have {nij}nij : odd i != odd j.
  by apply: contra nij => /eqP o; apply/eqP/val_inj; rewrite /= (half i) (half j) o ij.
have {nil}nil : odd i != odd l.
  by apply: contra nil => /eqP o; apply/eqP/val_inj; rewrite /= (half i) (half l) o il.
rewrite (half j) (half l) -ij -il; congr (_ + _)%N.
by move: nij nil; case: (odd i); case: (odd j); case: (odd l).
Qed.
(* A sum over a row with x at i and y at the partner. *)
Lemma row_sum (f : 'I_n -> R) i : (forall j, j != i -> ~~ partner i j -> f j = 0) ->
  \sum_j f j = f i + \sum_(j | partner i j) f j.
Proof.
move=> z; rewrite (bigD1 i) //=; congr (_ + _).
rewrite [LHS](bigID (partner i)) /= [X in _ + X]big1 ?addr0 => [|j /andP[ji pj]]; last exact: z.
by apply: eq_bigl => j; rewrite /partner [i == j]eq_sym; case: (j == i); rewrite ?andbF ?andbT.
Qed.
Lemma one_partner i (x : R) : \sum_(j | partner i j) x = if paired i then x else 0.
Proof.
case: ifPn => [/existsP[j pj]|/existsPn none]; last by rewrite big_pred0 // => j; apply/negbTE.
by rewrite (big_pred1 j) // => l; apply/idP/eqP => [pl|-> //]; exact: partner_uniq pl pj.
Qed.
Lemma P2_stochastic : (forall i j, 0 <= P2 i j) /\ forall i, \sum_j P2 i j = 1.
Proof.
have e0p : 0 <= e0 by apply: le_trans (ltW e1); rewrite invr_ge0 ler0n.
split=> [i j|i]; first by rewrite mxE; repeat (case: ifP => _); rewrite ?ler01 ?subr_ge0.
rewrite (@row_sum _ i) => [|j ji /negbTE pj]; last by rewrite mxE eq_sym (negbTE ji) pj.
rewrite (eq_bigr (fun=> 1 - e0)) => [|j pj]; last first.
  by rewrite mxE pj; case/andP: pj => _ /negbTE ->.
by rewrite one_partner mxE eqxx; case: ifP; rewrite ?addr0 // addrC subrK.
Qed.
Lemma P2_error i : \sum_j `|P2 i j - B2 i j| <= 2%:R * e0 - 1.
Proof.
have two : 2%:R * 2%:R^-1 = 1 :> R by rewrite divff ?pnatr_eq0.
rewrite (@row_sum _ i) => [|j ji /negbTE pj]; last by rewrite !mxE eq_sym (negbTE ji) pj subrr normr0.
have one : 1 = 2%:R^-1 + 2%:R^-1 :> R by rewrite -[RHS]mulr2n -[RHS]mulr_natl two.
have h0 : 0 <= e0 - 2%:R^-1 by rewrite subr_ge0 ltW.
rewrite (eq_bigr (fun=> e0 - 2%:R^-1)) => [|j pj]; last first.
  rewrite !mxE pj; case/andP: pj => _ /negbTE ->; rewrite -[RHS](ger0_norm h0) -[RHS]normrN.
  congr `|_|; transitivity (2%:R^-1 + 2%:R^-1 - e0 - 2%:R^-1 : R); last by ident.
  by rewrite -one.
rewrite one_partner !mxE eqxx; case: ifP => _.
  rewrite ger0_norm // le_eqVlt; apply/orP; left; apply/eqP.
  transitivity (2%:R * e0 - (2%:R^-1 + 2%:R^-1)); [by ident | by rewrite -one].
rewrite subrr normr0 addr0 subr_ge0; apply: (@le_trans _ _ (2%:R * 2%:R^-1)); first by rewrite two.
by rewrite ler_wpmul2l ?ler0n // ltW.
Qed.
(* One row for each pair, at most half of n, rounded up. *)
Lemma B2_rank r : (n <= 2 * r)%N -> (\rank B2 <= r)%N.
Proof.
move=> nr; pose T : 'M[R]_(n, r) := \matrix_(i, k) (i./2 == k)%:R.
pose D : 'M[R]_(r, n) := \matrix_(k, j) ((j./2 == k)%:R * if paired j then 2%:R^-1 else 1).
have -> : B2 = T *m D; last by apply: leq_trans (mxrankM_maxl _ _) (rank_leq_col _).
apply/matrixP => i j; rewrite !mxE.
have ir : (i./2 < r)%N.
  rewrite -ltn_double -[r.*2]mul2n; apply: leq_trans nr; apply: leq_ltn_trans (ltn_ord i).
  by rewrite -[X in (_ <= X)%N]odd_double_half leq_addl.
rewrite (bigD1 (Ordinal ir)) //= !mxE eqxx mul1r big1 ?addr0 => [|k /negbTE ki]; last first.
  by rewrite !mxE -val_eqE /= eq_sym in ki *; rewrite ki mul0r.
have [<-|ij] := eqVneq i j; first by rewrite eqxx mul1r.
rewrite /partner ij andbT [i./2 == _]eq_sym; case: ifP => h; rewrite ?mul0r // mul1r.
by rewrite ifT //; apply/existsP; exists i; rewrite /partner h eq_sym ij.
Qed.
(* All columns have the largest entry e, but for one if n is odd. *)
Lemma P2_top j : top P2 j = if paired j then e0 else 1.
Proof.
have e0p : 1 - e0 <= e0.
  have two : 2%:R * 2%:R^-1 = 1 :> R by rewrite divff ?pnatr_eq0.
  rewrite ler_subl_addl -mulr2n -mulr_natl; apply: (@le_trans _ _ (2%:R * 2%:R^-1)).
    by rewrite two.
  by rewrite ler_wpmul2l ?ler0n // ltW.
have e0_ge0 : 0 <= e0 by apply: le_trans (ltW e1); rewrite invr_ge0 ler0n.
apply: le_anti; apply/andP; split; last by have := top_max P2 j j; rewrite mxE eqxx.
rewrite /top; move: (rho P2 j) => i; rewrite mxE; have [->|ij] := eqVneq i j; first exact: lexx.
case: ifP => p; last by case: ifP; rewrite ?ler01.
by rewrite ifT //; apply/existsP; exists i; rewrite /partner eq_sym (proj1 (andP p)) eq_sym ij.
Qed.
Lemma unpaired j : ~~ paired j -> j.+1 = n.
Proof.
move/existsPn => none; apply/eqP; rewrite eqn_leq ltn_ord /= leqNgt; apply/negP => jn.
have [oj|ej] := boolP (odd j).
  have j0 : (0 < j)%N by case: (j : nat) oj.
  have pn : (j.-1 < n)%N by apply: leq_ltn_trans (leq_pred j) (ltn_ord j).
  have := none (Ordinal pn); rewrite /partner -val_eqE /= neq_ltn prednK // leqnn orbT andbT.
  by rewrite -{1}(prednK j0) /= uphalf_half; move: oj; rewrite -{1}(prednK j0) /= => /negbTE ->; rewrite eqxx.
have := none (Ordinal jn); rewrite /partner -val_eqE /= neq_ltn leqnn andbT uphalf_half.
by rewrite (negbTE ej) eqxx.
Qed.
Theorem first_attained (r : 'I_n) : (n <= 2 * r)%N -> exists P B : 'M[R]_n,
  [/\ (forall i j, 0 <= P i j) /\ (forall i, \sum_j P i j = 1), e P r = e0, (\rank B <= r)%N,
      forall i, \sum_j `|P i j - B i j| <= 2%:R * e0 - 1 &
      exists i, \sum_j `|P i j - B i j| = 2%:R * e0 - 1].
Proof.
move=> nr; exists P2, B2; have [P0 P1] := P2_stochastic; have rB := B2_rank nr.
(* two columns cannot both be without a partner *)
have er : e P2 r = e0.
  rewrite /e P2_top; case: ifPn => // ur; pose o := Ordinal (ltnW n2).
  have := @e_dec _ _ P2 o r (leq0n r); rewrite /e !P2_top (negbTE ur); case: ifPn => uo.
    by move=> le1; apply: le_anti; rewrite le1 e2.
  have /col_inj/(congr1 val)/= r0 : col P2 r = col P2 o.
    by apply/val_inj; apply: succn_inj; rewrite !unpaired.
  by move: nr; rewrite r0 muln0 leqNgt (ltnW n2).
split=> //; first exact: P2_error.
have [i low] := rank_first P0 P1 rB; exists i; apply: le_anti.
by rewrite P2_error -er low.
Qed.
End Attained.

(* Theorem 24.2: for all e_j = e, (b) with j = n tends to e, and no larger limit is possible. *)
Section Limit.
Variable R : archiFieldType.
Theorem second_limit r (e0 eps : R) : 0 < e0 -> e0 <= 1 -> 0 < eps -> exists N, forall n,
  (N <= n)%N -> `|(n%:R * e0 - r%:R) / (n + r)%:R - e0| < eps.
Proof.
move=> e0p e01 eps0; pose c := r%:R * (1 + e0); exists (Num.bound (c / eps)).+1 => n Nn.
have c0 : 0 <= c by rewrite mulr_ge0 ?ler0n // addr_ge0 ?ler01 // ltW.
have n0 : 0 < (n + r)%:R :> R by rewrite ltr0n addn_gt0 (leq_ltn_trans _ Nn).
have -> : (n%:R * e0 - r%:R) / (n + r)%:R - e0 = - (c / (n + r)%:R).
  rewrite -{2}[e0](mulfK (lt0r_neq0 n0)) -mulrBl -mulNr; congr (_ / _).
  by rewrite natrD /c; ident.
rewrite normrN ger0_norm ?divr_ge0 ?(ltW n0) // ltr_pdivr_mulr // mulrC -ltr_pdivr_mulr //.
have lt : c / eps < (Num.bound (c / eps))%:R.
  by apply: le_lt_trans (archi_boundP _); rewrite ?divr_ge0 ?(ltW eps0).
apply: lt_le_trans lt _; rewrite ler_nat; apply: leq_trans (leq_addr _ _); exact: ltnW.
Qed.
End Limit.
Section LargestLimit.
Variables (R : realFieldType) (n : nat) (e0 : R).
Hypotheses (n2 : (1 < n)%N) (e2 : e0 <= 1) (en : 1 <= n%:R * e0).
Let rest := (1 - e0) / (n - 1)%:R.
Let n1 : 0 < (n - 1)%:R :> R. Proof. by rewrite ltr0n subn_gt0. Qed.
(* e on the diagonal, and all others equal; e >= 1/n. *)
Definition P3 : 'M[R]_n := \matrix_(i, j) if i == j then e0 else rest.
Theorem no_larger_limit : [/\ (forall i j, 0 <= P3 i j) /\ (forall i, \sum_j P3 i j = 1),
  forall k, e P3 k = e0, (\rank (const_mx rest : 'M[R]_n) <= 1)%N &
  forall i, \sum_j `|P3 i j - (const_mx rest : 'M[R]_n) i j| <= e0].
Proof.
have e0p : 0 <= e0 by rewrite -(pmulr_rge0 _ (_ : 0 < n%:R)) ?ltr0n ?(ltnW n2) // (le_trans ler01).
have rest0 : 0 <= rest by rewrite divr_ge0 ?subr_ge0 // ltW.
have rest1 : rest <= e0.
  rewrite ler_pdivr_mulr // natrB ?(ltnW n2) // mulrBr mulr1 ler_sub // mulrC.
  exact: en.
have single (f : 'I_n -> R) (i : 'I_n) x y :
    (forall j, f j = if i == j then x else y) -> \sum_j f j = x + y *+ (n - 1).
  move=> fE; rewrite (bigD1 i) //= fE eqxx (eq_bigr (fun=> y)) => [|j ji]; last first.
    by rewrite fE eq_sym (negbTE ji).
  by rewrite sumr_const cardC1 card_ord subn1.
split.
- split=> [i j|i]; first by rewrite mxE; case: ifP.
  rewrite (single _ i e0 rest) => [|j]; last by rewrite mxE.
  by rewrite -mulr_natr divfK ?gt_eqF // addrC subrK.
- move=> k; rewrite /e /top; move: (col P3 k) => j.
  apply: le_anti; apply/andP; split; first by rewrite mxE; case: ifP.
  by have := top_max P3 j j; rewrite mxE eqxx.
- have -> : const_mx rest = (const_mx rest : 'cV[R]_n) *m (const_mx 1 : 'rV_n).
    by apply/matrixP => i j; rewrite !mxE big_ord1 !mxE mulr1.
  by apply: leq_trans (mxrankM_maxl _ _) (rank_leq_col _).
move=> i; rewrite (single _ i (e0 - rest) 0) => [|j].
  by rewrite mul0rn addr0 ler_subl_addr ler_addl.
rewrite !mxE; case: ifP => _; last by rewrite subrr normr0.
by rewrite ger0_norm ?subr_ge0.
Qed.
End LargestLimit.
(* Instance: six tokens, e = 3/4, rank at most 3. *)
Example six_tokens : exists P B : 'M[rat]_6,
  [/\ (forall i j, 0 <= P i j) /\ (forall i, \sum_j P i j = 1), e P 3%:R = 3%:R / 4%:R,
      (\rank B <= (3%:R : 'I_6))%N, forall i, \sum_j `|P i j - B i j| <= 2%:R * (3%:R / 4%:R) - 1 &
      exists i, \sum_j `|P i j - B i j| = 2%:R * (3%:R / 4%:R) - 1].
Proof. by apply: first_attained. Qed.
